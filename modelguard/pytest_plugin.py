"""The pytest plugin: a fixture, a marker and an option for replay checks. torch is imported when a test asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from modelguard.runtime.replay import Replay


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--modelguard-device`."""
    parser.getgroup("modelguard").addoption(
        "--modelguard-device",
        choices=["auto", "cuda", "tape"],
        default="auto",
        help="What `replay_safe` captures with: a CUDA graph, recorded operators, or what the model's device allows (default).",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker `replay_safe(steps=..., train=...)`."""
    config.addinivalue_line(
        "markers", "replay_safe(**options): options of modelguard's `replay_safe` fixture for this test, such as steps=8"
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The marker alone checks nothing, and a test that carries it would pass for having been checked."""
    is_marked = any(marker.name == "replay_safe" for marker in item.own_markers)
    if is_marked and "replay_safe" not in getattr(item, "fixturenames", ()):
        pytest.fail(
            "marked `replay_safe`, but the fixture `replay_safe` is not among its arguments: take it, and call it with a model",
            pytrace=False,
        )


@pytest.fixture
def replay_safe(request: pytest.FixtureRequest) -> Callable[..., Replay]:
    """`replay_safe(model, *args)` fails the test unless replaying a captured step gives what eager steps give.

    Takes the arguments of `modelguard.runtime.testing.assert_replay_safe`; those of the marker `replay_safe` are defaults.
    """
    from modelguard.runtime.testing import assert_replay_safe

    marker = request.node.get_closest_marker("replay_safe")
    device = request.config.getoption("--modelguard-device")
    defaults: dict[str, Any] = {} if device == "auto" else {"device": device}
    if marker is not None:
        defaults.update(marker.kwargs)

    def check(model: Any, *args: Any, **options: Any) -> Replay:
        __tracebackhide__ = True
        return assert_replay_safe(model, *args, **{**defaults, **options})

    return check
