"""`python -m bandanna` is `bandanna`."""

from __future__ import annotations

from bandanna.cli.main import main

if __name__ == "__main__":
    main()
