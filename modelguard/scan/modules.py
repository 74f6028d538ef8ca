"""Which file a module is: looked up as Python would import it, without importing anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

_UNFOLLOWED = frozenset(
    "torch numpy scipy pandas tensorflow jax flax triton sympy PIL cv2 matplotlib sklearn builtins typing".split()
)
"""Packages whose source is never read for bases and helpers: known by name, or too large to be worth it."""


_STANDARD = os.path.dirname(os.path.abspath(os.__file__))
"""Where the standard library lies, which is known by name only."""


class ModuleFiles:
    """Files of modules. `roots` are the paths that are scanned; installed packages are looked into after them.

    `follow` says which: all, none, or those of the names given.
    """

    def __init__(self, roots: Sequence[str], follow: bool | Sequence[str] = True) -> None:
        absolute = [os.path.abspath(path) for path in roots]
        self._roots = list(dict.fromkeys(root for path in absolute for root in (path, os.path.dirname(path))))
        self._installed = [path for path in sys.path if path and os.path.isdir(path)] if follow else []
        self._followed = None if isinstance(follow, bool) else frozenset(follow)
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
        package = module.partition(".")[0]
        if package in _UNFOLLOWED:
            return None
        roots = [self._package_parent(folder), *self._roots]
        if package in sys.stdlib_module_names:
            roots = [root for root in roots if root != _STANDARD]
        else:
            # A file beside the importer hides an installed package as it would a script's, but not the standard library.
            roots.append(folder)
            if self._followed is None or package in self._followed:
                roots += self._installed
        for root in roots:
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
