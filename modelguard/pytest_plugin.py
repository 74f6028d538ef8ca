"""The pytest plugin: a fixture, a marker and an option for replay checks. torch is imported when a test asks for it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from modelguard.runtime.replay import Replay

_OPTIONS = ("calls", "kwargs", "others", "steps", "train", "device", "vary")
"""Those of `modelguard.runtime.testing.assert_replay_safe`, which is not imported before a test asks for it."""


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
    for marker in item.iter_markers("replay_safe"):
        _check_options(marker)


def _check_options(marker: pytest.Mark) -> None:
    """Options that say nothing to the fixture would check something else than what they ask for."""
    if marker.args:
        given = ", ".join(map(repr, marker.args))
        pytest.fail(f"the marker `replay_safe({given})` takes its options by name, such as replay_safe(steps=8)", pytrace=False)
    for name in marker.kwargs:
        if name not in _OPTIONS:
            near = difflib.get_close_matches(name, _OPTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(_OPTIONS)}"
            pytest.fail(f"the marker `replay_safe` has no option {name!r}; {hint}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """A test that passes with the fixture and never calls it would pass for having been checked as well."""
    outcome = yield
    check = getattr(item, "funcargs", {}).get("replay_safe")
    if isinstance(check, _Check) and not check.is_called:
        pytest.fail("the fixture `replay_safe` was never called, so nothing was checked: call it with a model", pytrace=False)
    return outcome


class _Check:
    """What the fixture hands to a test."""

    def __init__(self, defaults: Mapping[str, Any]) -> None:
        self.is_called = False
        self._defaults = defaults

    def __call__(self, model: Any, *args: Any, **options: Any) -> Replay:
        __tracebackhide__ = True
        from modelguard.runtime.testing import assert_replay_safe

        self.is_called = True
        return assert_replay_safe(model, *args, **{**self._defaults, **options})


@pytest.fixture
def replay_safe(request: pytest.FixtureRequest) -> Callable[..., Replay]:
    """`replay_safe(model, *args)` fails the test unless replaying a captured step gives what eager steps give.

    Takes the arguments of `modelguard.runtime.testing.assert_replay_safe`; those of the marker `replay_safe` are defaults.
    """
    marker = request.node.get_closest_marker("replay_safe")
    device = request.config.getoption("--modelguard-device")
    defaults: dict[str, Any] = {} if device == "auto" else {"device": device}
    if marker is not None:
        defaults.update(marker.kwargs)
    return _Check(defaults)
