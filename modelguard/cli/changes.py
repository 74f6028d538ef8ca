"""`--diff-base`: which lines changed since a revision, as git tells it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import replace

from modelguard.errors import ModelguardError
from modelguard.findings import Location, ScanReport
from modelguard.scan.engine import SettingsFor, failing
from modelguard.scan.excludes import is_repository
from modelguard.settings_table import shown

_FILES, _NOTEBOOKS = "*.py", "*.ipynb"
"""What is asked about; a file of another name counts as changed as a whole. To git, data files as text would be long."""

_DIFF = (
    *("diff", "--unified=0", "--inter-hunk-context=0", "--find-renames", "--text", "--no-color"),
    *("--no-ext-diff", "--no-textconv", "--src-prefix=a/", "--dst-prefix=b/"),
)
"""All that a person's configuration of git could say otherwise is said."""

_MEDDLING = frozenset(("GIT_DIFF_OPTS", "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS"))
"""Variables that go before what is said."""

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class Changes:
    """The lines of the working tree that are not as they were at a revision."""

    def __init__(self, revision: str, paths: Iterable[str]) -> None:
        """`paths` lie in the repositories to ask, each of which must have the revision."""
        self._changed: dict[str, list[tuple[int, int]]] = {}
        for top in dict.fromkeys(map(_top, paths)):
            commit = _commit(revision, top)
            for name in _git(top, "ls-files", "-z", "--", _FILES, _NOTEBOOKS).split(b"\0"):
                self._changed[_file(top, name)] = []
            # The lines of a notebook are those of its code, not of its file: it changed as a whole or not at all.
            for name in _git(top, "diff", "--name-only", "-z", commit, "--", _NOTEBOOKS).split(b"\0"):
                self._changed.pop(_file(top, name), None)
            for name, first, last in _hunks(_git(top, *_DIFF, commit, "--", _FILES)):
                self._changed.setdefault(_file(top, name), []).append((first, last))

    def narrow(self, report: ScanReport, settings: SettingsFor) -> ScanReport:
        """The report with the findings on changed lines alone."""
        findings = tuple(finding for finding in report.findings if self._touch(finding.location))
        unchanged = len(report.findings) - len(findings)
        return replace(report, findings=findings, failing=failing(findings, settings), unchanged=unchanged)

    def _touch(self, where: Location) -> bool:
        changed = self._changed.get(os.path.realpath(where.path))
        # What git does not follow there is new as a whole.
        return changed is None or any(first <= where.end_line and where.line <= last for first, last in changed)


def _top(path: str) -> str:
    """The top of the repository that a file or folder lies in."""
    folder = os.path.realpath(path)
    while not is_repository(folder):
        if folder == os.path.dirname(folder):
            raise ModelguardError(f"--diff-base: {path} lies in no git repository")
        folder = os.path.dirname(folder)
    return folder


def _commit(revision: str, top: str) -> str:
    """The hash of a revision: git takes nothing else for it, whatever the revision looks like."""
    remedy = "check the spelling, or fetch it: a shallow clone has few revisions"
    problem = f"git knows no revision {revision!r} in {shown(top)}; {remedy}"
    if revision.startswith("-"):
        raise ModelguardError(f"--diff-base: {problem}")
    return _git(top, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", problem=problem).decode("ascii").strip()


def _file(top: str, name: bytes) -> str:
    return os.path.normpath(os.path.join(top, os.fsdecode(name)))


def _git(top: str, *arguments: str, problem: str = "git failed") -> bytes:
    environment = {name: value for name, value in os.environ.items() if name not in _MEDDLING}
    # Names with odd bytes in them are quoted, so that no name can look like another line.
    command = ["git", "--no-optional-locks", "-c", "core.quotePath=true", *arguments]
    try:
        return subprocess.run(command, cwd=top, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True).stdout
    except FileNotFoundError:
        raise ModelguardError("--diff-base: there is no program `git`; install it, or leave the option out") from None
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").splitlines()
        raise ModelguardError(f"--diff-base: {problem}{f' ({said[0]})' if said else ''}") from None


def _hunks(patch: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, first and last line of each piece that is new."""
    name = b""
    lines = iter(patch.split(b"\n"))
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk is None:
            if line.startswith(b"+++ "):
                name = _name(line[4:])
            continue
        removed, first, added = (1 if number is None else int(number) for number in hunk.groups())
        if added:
            yield name, first, first + added - 1
        left = removed + added
        while left:
            # What a file holds can look like anything; a remark about its last line end counts for none.
            left -= not next(lines).startswith(b"\\")


def _name(written: bytes) -> bytes:
    """A file's name as a patch writes it: in the quotes and escapes of C, or followed by a tab where there is a space in it."""
    if written.startswith(b'"'):
        unquoted: bytes = ast.literal_eval("b" + written.decode("ascii"))
        return unquoted.removeprefix(b"b/")
    return written.removesuffix(b"\t").removeprefix(b"b/")
