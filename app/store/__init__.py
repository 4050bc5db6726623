"""The database: SQL tables and named queries that take and return domain values."""
