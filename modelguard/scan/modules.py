"""Which file a module is: looked up as Python would import it, without importing anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_UNFOLLOWED = frozenset(
    "torch numpy scipy pandas tensorflow jax flax triton sympy PIL cv2 matplotlib sklearn builtins typing".split()
)
"""Packages whose source is never read for bases and helpers: known by name, or too large to be worth it."""


class ModuleFiles:
    """Files of modules. `roots` are the paths that are scanned; installed packages are looked into after them."""

    def __init__(self, roots: Sequence[str]) -> None:
        absolute = [os.path.abspath(path) for path in roots]
        self._roots = list(dict.fromkeys(root for path in absolute for root in (path, os.path.dirname(path))))
        self._installed = [path for path in sys.path if path and os.path.isdir(path)]
        self._known: dict[tuple[str, str], str | None] = {}
        self._listings: dict[str, frozenset[str]] = {}
        self._parents: dict[str, str] = {}

    def of(self, importer: str, module: str, level: int) -> str | None:
        """The file of a module as `importer` would import it."""
        key = (os.path.dirname(importer), "." * level + module)
        try:
            return self._known[key]
        except KeyError:
            found = self._look_up(importer, module, level)
            self._known[key] = found
            return found

    def _look_up(self, importer: str, module: str, level: int) -> str | None:
        folder = os.path.dirname(os.path.abspath(importer))
        if level:
            for _ in range(level - 1):
                folder = os.path.dirname(folder)
            return self.below(folder, module)
        if module.partition(".")[0] in _UNFOLLOWED or module.partition(".")[0] in sys.stdlib_module_names:
            return None
        for root in (self._package_parent(folder), *self._roots, folder, *self._installed):
            found = self.below(root, module)
            if found is not None:
                return found
        return None

    def _package_parent(self, folder: str) -> str:
        """The folder that the outermost package around `folder` lies in."""
        parent = self._parents.get(folder)
        if parent is None:
            parent = folder
            if "__init__.py" in self._listing(folder) and os.path.dirname(folder) != folder:
                parent = self._package_parent(os.path.dirname(folder))
            self._parents[folder] = parent
        return parent

    def below(self, folder: str, module: str) -> str | None:
        """The file of a module that lies below `folder`."""
        parts = module.split(".") if module else []
        for part in parts[:-1]:
            if part not in self._listing(folder):
                return None
            folder = os.path.join(folder, part)
        if parts:
            entries = self._listing(folder)
            if parts[-1] in entries:
                package = os.path.join(folder, parts[-1])
                if "__init__.py" in self._listing(package):
                    return os.path.join(package, "__init__.py")
            if parts[-1] + ".py" in entries:
                return os.path.join(folder, parts[-1] + ".py")
            return None
        return os.path.join(folder, "__init__.py") if "__init__.py" in self._listing(folder) else None

    def _listing(self, folder: str) -> frozenset[str]:
        entries = self._listings.get(folder)
        if entries is None:
            try:
                entries = frozenset(os.listdir(folder or "."))
            except OSError:
                entries = frozenset()
            self._listings[folder] = entries
        return entries
