"""The REST surface: a router per noun, and what arrives before it is theirs."""
