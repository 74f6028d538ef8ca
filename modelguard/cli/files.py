"""Files that commands change: as a whole or not at all."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from errno import EACCES


def replace_file(path: str, content: bytes) -> None:
    """Write a file beside the one that `path` leads to, and put it in its place: who reads meanwhile gets one or the other."""
    path = os.path.realpath(path)
    if not os.access(path, os.W_OK):
        # Taking its place would not ask for that.
        raise PermissionError(EACCES, os.strerror(EACCES))
    handle, partial = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".modelguard-")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        old, new = os.stat(path), os.stat(partial)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            with suppress(OSError):
                os.chown(partial, old.st_uid, old.st_gid)
        os.chmod(partial, old.st_mode & 0o7777)
        os.replace(partial, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise
