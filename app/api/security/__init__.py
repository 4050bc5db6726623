"""Who may do what: API keys, scopes, sessions of browsers, and pages of other sites."""
