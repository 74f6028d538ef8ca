"""The static pass: files, facts, project, the walk of a region. `modelguard.scan(...)` runs it."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from modelguard.findings import ScanReport
    from modelguard.settings import Settings


class _Scan(ModuleType):
    """This package, which can be called: `import modelguard; modelguard.scan(["models"])`."""

    def __call__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        settings: Settings | None = None,
        *,
        jobs: int | None = 1,
        executor: Executor | None = None,
    ) -> ScanReport:
        """As `modelguard.scan.engine.scan_paths`."""
        from modelguard.scan.engine import scan_paths

        return scan_paths(paths, settings, jobs=jobs, executor=executor)


sys.modules[__name__].__class__ = _Scan
