"""Draws the pictures of this folder: `python docs/images/draw.py`, at the top of the repository.

ready.svg is what a terminal shows, ready.png and confirm.png are pages in Chromium.
"""

from __future__ import annotations

import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import CONSOLE_SVG_FORMAT, Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

HERE = Path(__file__).parent
READY, CONFIRM = "examples/router.py:build", "examples/counter.py:build"
WIDTH = 132
PAGE_WIDTH = 1180


def main() -> None:
    """Draw all of them."""
    shown = output("ready", READY, "--color", "always")
    console = Console(record=True, file=StringIO(), width=WIDTH)
    console.print(Text(f"$ modelguard ready {READY}\n"))
    console.print(Text.from_ansi(shown))
    # Fonts that an image would have to load are left out: it takes what the reader has.
    plain = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.S).replace("Fira Code", "ui-monospace")
    console.save_svg(str(HERE / "ready.svg"), title="modelguard ready", theme=MONOKAI, code_format=plain, unique_id="ready")
    with TemporaryDirectory() as folder:
        for command, target, height in (("ready", READY, 1780), ("confirm", CONFIRM, 1230)):
            page = Path(folder, f"{command}.html")
            output(command, target, "--output-format", "html", "--output-file", str(page))
            photograph(page, HERE / f"{command}.png", height, Path(folder, "profile"))


def output(*arguments: str) -> str:
    """What the tool prints; that it has findings is the point."""
    done = subprocess.run([sys.executable, "-m", "modelguard", *arguments], stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1, done.returncode
    return done.stdout


def photograph(page: Path, picture: Path, height: int, profile: Path) -> None:
    """A page as Chromium shows it."""
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}")
    size = f"--window-size={PAGE_WIDTH},{height}"
    subprocess.run(["chromium", *options, size, f"--screenshot={picture}", page.as_uri()], check=True, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
