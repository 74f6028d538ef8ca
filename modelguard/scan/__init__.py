"""The static pass: files, facts, project, the walk of a region.

The package can be called: `modelguard.scan(["models"])` scans files and folders with the settings of their project, and returns a
`modelguard.findings.ScanReport`. It takes `settings`, `jobs`, `executor` and `cache` by name.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from modelguard.findings import ScanReport
    from modelguard.settings import Settings


class _Scan(ModuleType):
    """This package, which can be called: `import modelguard; modelguard.scan(["models"])`."""

    def __call__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        settings: Settings | None = None,
        *,
        jobs: int | None = 1,
        executor: Executor | None = None,
        cache: str | None = None,
    ) -> ScanReport:
        """Scan files, and the Python files below directories, as `modelguard scan` does.

        `settings` (`modelguard.settings.Settings`) holds for all of them; without it, the settings file nearest to each does.
        `jobs` is the number of processes, None for one a core; `executor` is used in their place, and must see the same files.
        `cache` is the folder where results are kept between scans. What could not be scanned is among the report's
        `diagnostics`.

        Raises `modelguard.errors.SettingsError` for a mistake in a settings file, `TypeError` and `ValueError` for arguments that
        mean nothing.
        """
        from modelguard.scan.engine import scan_paths
        from modelguard.settings import Settings
        from modelguard.settings_files import SettingsFiles

        if settings is not None and not isinstance(settings, Settings):
            raise TypeError(f"settings must be a modelguard.settings.Settings, not {type(settings).__name__}")
        if jobs is not None and jobs < 1:
            raise ValueError(f"jobs must be at least 1, or None for one a core, not {jobs}")
        several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        return scan_paths(several, settings or SettingsFiles(), jobs=jobs, executor=executor, cache=cache)


sys.modules[__name__].__class__ = _Scan
