"""What outlives the server: SQL tables, named queries, domain values in and out."""
