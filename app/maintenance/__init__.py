"""What an operator does with a data directory by hand: recover, back up, restore."""

from app.maintenance.backup_commands import run_backup, run_restore
from app.maintenance.recovering import run_recover

__all__ = ["run_backup", "run_recover", "run_restore"]
