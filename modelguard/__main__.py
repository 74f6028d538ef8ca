"""`python -m modelguard`: the same as the `modelguard` command."""

from __future__ import annotations

import sys

from modelguard.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
