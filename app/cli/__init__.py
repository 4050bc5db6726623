"""The command ``modserve`` and all of its subcommands."""
