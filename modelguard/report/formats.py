"""The output formats by name: every command that prints findings offers all of them.

A format is a module of this package, of the same name, whose `render` makes text of a report.
"""

from __future__ import annotations

from importlib import import_module

from modelguard.findings import ScanReport

NAMES = ("text", "concise", "grouped", "html", "json", "sarif", "github", "gitlab", "junit")

WITH_NOTES = frozenset(("html", "json", "sarif", "gitlab"))
"""Formats that hold all notes, for programs that tell severities apart; in the others stand those that the settings show."""


WITH_FIXES = frozenset(("json", "sarif"))
"""Formats that hold the edits of fixes, which are worked out for them alone."""


def render(name: str, report: ScanReport) -> str:
    """The report in the format `name`. Only that format is imported."""
    rendered: str = import_module(f"modelguard.report.{name}").render(report)
    return rendered
