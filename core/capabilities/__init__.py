"""What operators declare about themselves to code that does not know them: passes and backends.

Each capability is plain data that an operator declares where it is registered. A pass asks for the
capability, never for the operator's name. Operators of graphs declare them, and so do the fused
ones that the executor makes of those.
"""
