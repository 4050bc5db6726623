"""A shell and a Python interpreter that run a guide's blocks in order, as its reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

__all__ = ["Shells", "open_shells"]

ROOT = Path(__file__).parents[2]
_END = "-- end of the block --"
_SECONDS = 240
_REFUSED = re.compile(r"^curl: \(22\).*\n", re.MULTILINE)
"""Printed by curl for a refusal because of our ``.curlrc``; a reader does not see it."""
_BASH = "set -E -o pipefail; trap 'failed=$?' ERR; while read -r line; do eval \"$line\"; done"
"""A shell that survives failing commands and remembers the status of the last one."""
_PYTHON = f"""
import sys, traceback
names = {{"__name__": "__main__"}}
for path in sys.stdin:
    status = 0
    try:
        exec(compile(open(path.strip()).read(), path.strip(), "exec"), names)
    except BaseException:
        traceback.print_exc()
        status = 1
    print("{_END}", status, flush=True)
"""


class Shell:
    """A process that runs blocks."""

    def __init__(self, command: list[str], line: str, folder: Path, environment: dict[str, str]):
        self._line, self._folder = line, folder
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )

    def run(self, text: str) -> tuple[int, str]:
        """Run a block; return its status and output."""
        script = self._folder / ".block"
        script.write_text(text, encoding="utf-8")
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        watch = threading.Timer(_SECONDS, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(self._line.format(script) + "\n")
            printed = []
            for line in self.process.stdout:
                before, is_end, status = line.partition(_END)
                printed.append(before)
                if is_end:
                    return int(status), "".join(printed)
            return self.process.wait(), "".join(printed)
        finally:
            watch.cancel()

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


class Shells:
    """A process for each language used in guides, begun with its first block."""

    def __init__(self, folder: Path, url: str, data_dir: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".curlrc").write_text("silent\nshow-error\nfail-with-body\n")
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder),
            "CURL_HOME": str(folder),
            "MODSERVE_URL": url,
            "MODSERVE_DATA_DIR": str(data_dir),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "120",
        }
        self._folder = folder
        self._url, self._stack, self._open = url, ExitStack(), dict[str, Shell]()
        bash = f"failed=0; . {{}} </dev/null; echo '{_END}' $failed"
        self._known = {
            "bash": (["bash", "-c", _BASH], bash, folder, environment),
            "python": ([sys.executable, "-u", "-c", _PYTHON], "{}", folder, environment),
        }

    def run(self, language: str, text: str) -> tuple[int, str]:
        """Run a block as written against this server; return its status and output."""
        if language not in self._open:
            self._open[language] = shell = Shell(*self._known[language])
            self._stack.callback(shell.close)
        own, shown = self._url, "http://127.0.0.1:8000"
        text = (
            text.replace("/tmp/", f"{self._folder}/")
            .replace(shown, own)
            .replace("127.0.0.1:8000", own.partition("//")[2])
        )
        status, printed = self._open[language].run(text)
        return status, _REFUSED.sub("", printed).replace(own, shown)

    def close(self) -> None:
        """End the processes."""
        self._stack.close()


@contextmanager
def open_shells(folder: Path, url: str, data_dir: Path) -> Iterator[Shells]:
    """Open the shells in a folder, for a server and its data directory."""
    shells = Shells(folder, url, data_dir)
    try:
        yield shells
    finally:
        shells.close()
