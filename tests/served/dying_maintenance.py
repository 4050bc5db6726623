"""Backs up or restores again and again, in processes that each die one write later.

``python -m served.dying_maintenance backup DATA_DIR FOLDER`` makes the copy ``FOLDER/n/made``, and
``... restore BACKUP FOLDER`` the data directory of that name: the nth process kills itself before
its nth write. Counted as writes are those of ``served.dying_start``, and links and removals. The
last process is not killed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from app.cli.maintenance import run_backup, run_restore
from app.store.store import sqlite_url
from served.dying_start import Deaths

_MOST = 400
_NAMES = ("fsync", "replace", "rename", "mkdir", "link", "unlink", "rmdir")


def main() -> None:
    """Start once per folder, dying one write later each time, until no death occurs."""
    what, source, root = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    for dies_at in range(1, _MOST):
        folder = root / str(dies_at)
        folder.mkdir(parents=True)
        child = os.fork()
        if child == 0:
            _run(what, source, folder, dies_at)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            return
        if not os.WIFSIGNALED(status):
            raise SystemExit(f"before write {dies_at}: status {status}")
    raise SystemExit(f"not done after {_MOST} writes")


def _run(what: str, source: Path, folder: Path, dies_at: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    deaths = Deaths(dies_at)
    for name in _NAMES:
        setattr(os, name, deaths.before(getattr(os, name)))
    sys.addaudithook(deaths.of_events)
    made = folder / "made"
    if what == "restore":
        status = run_restore(source, made, has_own_url=False, as_json=False)
    else:
        url = sqlite_url(source / "modserve.db")
        status = run_backup(source, url, made, as_json=False)
    os._exit(status)


if __name__ == "__main__":
    main()
