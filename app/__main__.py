"""``python -m app``: the command ``modserve``, for when its script is not on the path."""

from __future__ import annotations

from app.cli.main import main

if __name__ == "__main__":
    main()
