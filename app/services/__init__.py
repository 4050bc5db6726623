"""What the server can do, each service one file. No HTTP in it."""
