"""What an operator does with a data directory by hand: recover, back up, restore."""

from app.maintenance.recovering import run_recover

__all__ = ["run_recover"]
