import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def import_path() -> Iterator[None]:
    """Loading a target puts its folder on ``sys.path``, where a spawned process of a later test would import from it."""
    before = list(sys.path)
    yield
    sys.path[:] = before
