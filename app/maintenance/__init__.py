"""What an operator does with a data directory by hand: recover, back up, restore."""

from app.files.given_key import given_key
from app.maintenance.backup_commands import run_backup, run_restore
from app.maintenance.first_key import ensure_key
from app.maintenance.key_commands import (
    KeyWishes,
    run_keys_add,
    run_keys_generate,
    run_keys_ls,
    run_keys_revoke,
)
from app.maintenance.recovering import run_recover

__all__ = [
    "KeyWishes",
    "ensure_key",
    "given_key",
    "run_backup",
    "run_keys_add",
    "run_keys_generate",
    "run_keys_ls",
    "run_keys_revoke",
    "run_recover",
    "run_restore",
]
