"""``python -m app.executor --fd N --device cpu(0) ...``: the executor process."""

from __future__ import annotations

import gc
import sys

from app.executor.refused_settings import tell_of_refused_settings
from app.garbage import collector_paused

if __name__ == "__main__":
    with collector_paused(), tell_of_refused_settings():
        from app.executor.main import main
    # What the imports created stays for good; full collections need not go through it.
    gc.freeze()
    sys.exit(main())
