"""A process of its own for a target, which may hang, eat memory, exit or die: the side that waits, and the side that runs."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from modelguard.errors import ModelguardError

TIMEOUT = 300
"""Seconds that a target may take."""

MEMORY = 16_384
"""MiB of data that its process may take; not enforced where the system has no such limit."""


class RunError(ModelguardError):
    """A target did not run to its end."""

    several_lines = True


@dataclass(frozen=True, slots=True)
class Limits:
    """What a target may take."""

    timeout: int = TIMEOUT
    """Seconds."""
    memory: int = MEMORY
    """MiB."""


def ask(module: str, target: str, request: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """What `python -m module` answers, whose `main` is `answer`. What the target prints goes to stderr.

    Raises:
        RunError: it told nothing, or what went wrong.
    """
    with tempfile.TemporaryDirectory(prefix="modelguard-") as folder:
        asked, told = os.path.join(folder, "request.json"), os.path.join(folder, "result.json")
        document = {**request, "target": target, "memory": limits.memory, "timeout": limits.timeout}
        Path(asked).write_text(json.dumps(document), encoding="utf-8")
        _run(target, [sys.executable, "-m", module, asked, told], told, limits.timeout)
        result: dict[str, Any] = json.loads(Path(told).read_text(encoding="utf-8"))
    if "error" in result:
        raise RunError(result["error"])
    return result


def _run(target: str, command: list[str], told: str, timeout: int) -> None:
    # A session of its own: what the target starts ends with it.
    process = subprocess.Popen(command, stdout=2, stdin=subprocess.DEVNULL, start_new_session=True, env=_environment())
    status: int | None = None
    try:
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(timeout)
    finally:
        with suppress(ProcessLookupError, PermissionError, AttributeError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
    if os.path.exists(told):
        # How it ended once it had told all, as by a thread that goes on or a library that fails on its way out, is no matter.
        return
    if status is None:
        raise RunError(f"{target} took more than {timeout} seconds; raise --timeout, or give it less to do")
    if status < 0:
        name = signal.Signals(-status).name
        hint = "; it may have run out of memory" if name == "SIGKILL" else ""
        raise RunError(f"the process that ran {target} died of {name}{hint}")
    raise RunError(f"the process that ran {target} ended with status {status} and told nothing; it may have called os._exit")


def _environment() -> dict[str, str]:
    """This one, in which torch keeps quiet where numpy is missing: that is none of the target's business."""
    quiet = "ignore:Failed to initialize NumPy:UserWarning"
    return {**os.environ, "PYTHONWARNINGS": ",".join(filter(None, (os.environ.get("PYTHONWARNINGS"), quiet)))}


def answer(observe: Callable[[dict[str, Any]], dict[str, Any]], request_path: str, result_path: str) -> int:
    """Run one request in this process, and write what `observe` says of it, or the error that it raises."""
    with open(request_path, encoding="utf-8") as stream:
        request = json.load(stream)
    _limit_memory(request["memory"])
    # That a graph breaks is told in the result; what Dynamo's log has to say of it is long.
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    try:
        result = observe(request)
    except ModelguardError as error:
        result = {"error": f"{error}{_hint(str(error), request)}"}
    except MemoryError:
        result = {"error": f"MemoryError{_hint('MemoryError', request)}"}
    with open(f"{result_path}.part", "w", encoding="utf-8") as stream:
        json.dump(result, stream)
    os.replace(f"{result_path}.part", result_path)
    return 0


def _hint(told: str, request: dict[str, Any]) -> str:
    is_memory = "MemoryError" in told or "can't allocate memory" in told
    return f"\nIts process may take {request['memory']} MiB; --memory-limit says so" if is_memory else ""


def _limit_memory(megabytes: int) -> None:
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = megabytes << 20
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
