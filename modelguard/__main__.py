"""`python -m modelguard`: the same as the `modelguard` command."""

from __future__ import annotations

from modelguard.cli.main import run

if __name__ == "__main__":
    run()
