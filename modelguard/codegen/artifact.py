"""Generated code in a file: refused, before anything of it is run, unless it is complete and unchanged."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from modelguard.codegen import portable
from modelguard.codegen.errors import ArtifactError
from modelguard.codegen.portable import NotPortable

VERSION = 1
_MAGIC = b"modelguard-artifact"
_LONGEST_HEADER = 200


@dataclass(frozen=True, slots=True)
class Artifact:
    """What `compile_execution_fn` needs, except for the submodules' callables."""

    code: str
    submod_names: list[str]
    consts: list[Any]
    content_hash: str
    """SHA-256 of what was written, in hexadecimal digits."""
    torch_version: str
    """The torch that it was written with."""


def save_artifact(path: str | os.PathLike[str], code: str, submod_names: list[str], consts: list[Any]) -> str:
    """Write the result of `generate_execution_code` to a file, which is replaced whole or not at all.

    Constants may be plain values, containers of them, torch's own (dtypes, devices, sizes, tensors and parameters, ...), and
    functions, classes, enum members, named tuples and dataclasses that can be imported by name.

    Returns:
        The content hash, for `load_artifact` to compare with.

    Raises:
        ArtifactError: a constant cannot be kept, or the file cannot be written.
    """
    name = os.fspath(path)
    packed = []
    for place, const in enumerate(consts):
        try:
            packed.append(portable.pack(const))
        except NotPortable as error:
            raise ArtifactError(name, f"constant {place} cannot be kept: {error}") from None
    stream = io.BytesIO()
    torch.save({"code": code, "submod_names": list(submod_names), "consts": packed, "torch": str(torch.__version__)}, stream)
    payload = stream.getvalue()
    content_hash = hashlib.sha256(payload).hexdigest()
    header = b"%s %d %s\n" % (_MAGIC, VERSION, content_hash.encode())
    _expect_file(name, "written")
    try:
        _replace(Path(os.path.realpath(name)), header + payload)
    except (OSError, ValueError) as error:
        raise ArtifactError(name, f"cannot be written: {_reason(error)}") from error
    return content_hash


def load_artifact(path: str | os.PathLike[str], content_hash: str | None = None) -> Artifact:
    """Read what `save_artifact` wrote.

    The hash is checked first; then torch's safe loader reads plain values and tensors, and what constants name is imported. The
    hash tells damage, not malice: loaded code is code, so take artifacts only from where you would take Python files.

    Args:
        path: the file.
        content_hash: what `save_artifact` returned, if it must be that very content.

    Raises:
        ArtifactError: the file is missing, damaged, of another version or other content, or names what does not exist here.
    """
    name = os.fspath(path)
    _expect_file(name, "read")
    try:
        data = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        raise ArtifactError(name, f"cannot be read: {_reason(error)}") from error
    header, newline, payload = data.partition(b"\n")
    magic, *fields = header[:_LONGEST_HEADER].split(b" ")
    if magic != _MAGIC or not newline or len(fields) != 2:
        raise ArtifactError(name, "is no artifact of modelguard, or its beginning is damaged; save it again")
    if fields[0] != b"%d" % VERSION:
        version = fields[0].decode("ascii", "backslashreplace")
        raise ArtifactError(name, f"has version {version}; this modelguard reads version {VERSION}; save it again with this one")
    found = hashlib.sha256(payload).hexdigest()
    if fields[1] != found.encode():
        raise ArtifactError(name, "is damaged: its content does not have the hash in its first line; save it again")
    if content_hash is not None and content_hash != found:
        raise ArtifactError(name, f"has other content than expected (hash {found}, not {content_hash}); save it again")
    return _read(name, payload, found)


def _read(name: str, payload: bytes, content_hash: str) -> Artifact:
    try:
        content = torch.load(io.BytesIO(payload), weights_only=True, map_location=None)
        code, submod_names, packed = content["code"], content["submod_names"], content["consts"]
        version = content["torch"]
    except (RuntimeError, pickle.UnpicklingError, KeyError, TypeError, EOFError) as error:
        raise ArtifactError(name, f"cannot be read by this torch ({torch.__version__}): {error}") from error
    consts = []
    for place, const in enumerate(packed):
        try:
            consts.append(portable.unpack(const))
        except NotPortable as error:
            raise ArtifactError(name, f"constant {place} cannot be restored: {error}") from None
    return Artifact(code, submod_names, consts, content_hash, version)


def _expect_file(name: str, done: str) -> None:
    """What is there must be a file: a device has no end, and a pipe waits."""
    if "\0" not in name and os.path.exists(name) and not os.path.isfile(name):
        raise ArtifactError(name, f"cannot be {done}: it is not a file; name one")


def _reason(error: OSError | ValueError) -> str:
    # A path with a NUL in it is a ValueError.
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _replace(path: Path, data: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(prefix=".modelguard-", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
