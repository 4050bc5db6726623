"""All errors of the service, and how they look over HTTP and in messages."""
