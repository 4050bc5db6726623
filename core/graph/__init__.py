"""Graphs of operators: nodes, the shapes and dtypes of their outputs, and graphs in operators.

Executors compile them; symbols (``core.symbol``) are what scripts compose and bind them by.
"""
