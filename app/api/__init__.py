"""The REST surface: a router per resource, and the middleware before them."""
