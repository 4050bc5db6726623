"""What people read: guides in Markdown, with their pictures and data, shown in the dashboard.

The blocks of code in them are run by the tests, and what a guide shows of their output is compared
with what came (tests/app/guides).
"""
