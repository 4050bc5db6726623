"""The user guides in Markdown, with their pictures and data; the dashboard shows them.

The tests run their code blocks and compare the output that they show (tests/app/guides).
"""
