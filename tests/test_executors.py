"""A scan shared out by an executor of the caller's: threads, processes, or the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import modelguard
from modelguard.findings import ScanReport

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
COPIES = 20


@contextmanager
def dask() -> Iterator[Executor]:
    """A cluster of two processes on this machine."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client, client.get_executor() as executor:
            yield executor


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for number in range(COPIES):
        for source in EXAMPLES.glob("*.py"):
            folder = tmp_path / f"models{number}"
            folder.mkdir(exist_ok=True)
            (folder / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path


def told(report: ScanReport) -> tuple[object, ...]:
    return report.findings, report.diagnostics, report.files, report.module_classes, report.entry_points, report.lines


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param(lambda: ThreadPoolExecutor(3), id="threads"),
        pytest.param(lambda: ProcessPoolExecutor(2), id="processes"),
        pytest.param(dask, id="dask"),
    ],
)
def test_an_executor_finds_what_one_process_finds(corpus: Path, executor: object) -> None:
    alone = modelguard.scan([corpus])
    assert len(alone.findings) > COPIES
    with executor() as pool:  # type: ignore[operator]
        assert told(modelguard.scan([corpus], executor=pool)) == told(alone)
