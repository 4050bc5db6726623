"""Maintenance of a data directory from the command line: recover, back up, restore, API keys."""

from app.cli.maintenance.backup_commands import run_backup, run_restore
from app.cli.maintenance.first_key import ensure_key
from app.cli.maintenance.key_commands import (
    KeyOptions,
    run_keys_add,
    run_keys_generate,
    run_keys_ls,
    run_keys_revoke,
)
from app.cli.maintenance.recovering import run_recover
from app.files.configured_key import given_key
from app.files.restore_mark import check_restored

__all__ = [
    "KeyOptions",
    "check_restored",
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
