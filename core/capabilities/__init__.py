"""What an operator can say of itself to those who do not know it: passes and backends.

Each capability is plain data that an operator declares where it is registered. A pass asks for the
capability, never for the operator's name; what is said here holds for operators of graphs and for
the fused ones that the executor makes of them.
"""
