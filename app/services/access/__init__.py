"""API keys, their limits, sessions, conditions and repeated requests."""
