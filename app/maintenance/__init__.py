"""What an operator does with a data directory by hand: recover, back up, restore."""

from app.maintenance.backup_commands import run_backup, run_restore
from app.maintenance.key_commands import (
    KeyWishes,
    has_keys,
    run_keys_add,
    run_keys_ls,
    run_keys_revoke,
)
from app.maintenance.recovering import run_recover

__all__ = [
    "KeyWishes",
    "has_keys",
    "run_backup",
    "run_keys_add",
    "run_keys_ls",
    "run_keys_revoke",
    "run_recover",
    "run_restore",
]
