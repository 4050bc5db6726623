"""Executor processes: how the server talks to them, and what they do."""
