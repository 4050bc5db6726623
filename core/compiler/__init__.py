"""Passes from a graph to a program that is ready to run; ``compile`` lists all in order."""
