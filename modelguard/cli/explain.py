"""`modelguard explain`: the page of a rule, or of the error that a message tells of."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from modelguard.cli import options
from modelguard.cli.remarks import remark
from modelguard.errors import ModelguardError
from modelguard.report.frame import printable

if TYPE_CHECKING:
    from modelguard.catalog import Match, Record
    from modelguard.rules.base import Rule

NOTHING_MATCHES = 1

_MOST_BYTES = 16 << 20
_SHOWN = 160


@click.command("explain")
@click.argument("words", metavar="CODE|MESSAGE", nargs=-1, required=True, shell_complete=options.complete_codes)
@click.option(
    "--output-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print the page."
)
def command(words: tuple[str, ...], output_format: str) -> int:
    """Print what a rule reports, or what an error message means, and what to do.

    CODE is a rule's code (MG101) or name (buffer-rebound), or a record of the error catalogue (torch-item), in upper or lower
    case. MESSAGE is an error, from one line to a whole log: as an argument, in a file that is named, or on standard input (-).

    The exit status is 1 where no record of the catalogue matches the message.
    """
    asked = " ".join(words)
    if asked != "-":
        from modelguard.rules import find

        rule = find(asked)
        if rule is not None:
            _print_rule(rule, output_format)
            return 0
    from modelguard.catalog import by_id, match

    record = by_id(asked)
    if record is not None:
        _print_record(record, None, [], output_format)
        return 0
    text = _text(asked)
    matches = match(text)
    if matches:
        _print_record(matches[0].record, matches[0], matches[1:], output_format)
        return 0
    if text is asked and not text.strip().count(" "):
        # One word that is no error either was meant as a name.
        raise click.UsageError(_unknown(asked))
    _print_nothing(output_format)
    return NOTHING_MATCHES


def _text(asked: str) -> str:
    """What is to be explained: standard input, the content of a file, or what was asked itself."""
    if asked == "-":
        if sys.stdin is None:
            raise ModelguardError("standard input is closed, so there is nothing to explain")
        if sys.stdin.isatty():
            remark("modelguard: paste the error, then end the input (Ctrl-D)")
        return _decoded(sys.stdin.buffer.read(_MOST_BYTES + 1), "standard input")
    is_path = len(asked) < 4096 and "\n" not in asked and "\0" not in asked
    if is_path and os.path.isfile(asked):
        try:
            with open(asked, "rb") as stream:
                return _decoded(stream.read(_MOST_BYTES + 1), printable(asked))
        except OSError as error:
            raise ModelguardError(f"cannot read {printable(asked)}: {error.strerror}") from None
    if is_path and " " not in asked and (os.sep in asked or asked.endswith((".log", ".txt"))):
        raise ModelguardError(f"there is no file {printable(asked)}")
    return asked


def _decoded(data: bytes, source: str) -> str:
    if len(data) > _MOST_BYTES:
        raise ModelguardError(f"{source} holds more than {_MOST_BYTES >> 20} MiB; give its end, as with `tail -n 5000`")
    if b"\0" in data:
        raise ModelguardError(f"{source} is no text: it holds a NUL byte")
    text = data.decode("utf-8", "replace")
    if not text.strip():
        raise ModelguardError(f"{source} is empty; give it an error message or a log")
    return text


def _unknown(asked: str) -> str:
    from difflib import get_close_matches

    from modelguard.catalog import records
    from modelguard.rules import nearest

    close = nearest(asked) or get_close_matches(asked.lower(), records())
    hint = f"did you mean {' or '.join(close)}?" if close else "`modelguard rules` lists them."
    return f"unknown rule {asked!r}; {hint}"


def _print_rule(rule: Rule, output_format: str) -> None:
    from modelguard.rules.pages import page

    if output_format == "json":
        _print_json(_rule(rule))
    else:
        click.echo(page(rule), nl=False)


def _print_record(record: Record, found: Match | None, others: list[Match], output_format: str) -> None:
    from modelguard.catalog.pages import page
    from modelguard.rules import rule_names

    if output_format == "json":
        where = {"line": found.line, "text": found.text, "groups": found.groups} if found else None
        _print_json({**record.as_json(), "match": where, "others": [other.record.id for other in others]})
        return
    if found is not None:
        click.echo(f"line {found.line}: {_short(found.text)}")
        for name, value in found.groups.items():
            click.echo(f"  {name} = {_short(value)}")
        for other in others:
            click.echo(f"also, line {other.line}: {_short(other.text)} (`modelguard explain {other.record.id}`)")
        click.echo()
    click.echo(page(record, rule_names()), nl=False)


def _print_nothing(output_format: str) -> None:
    if output_format == "json":
        _print_json({"id": None, "match": None, "others": []})
        return
    click.echo("none: no record of the error catalogue matches this text.")
    click.echo("`modelguard catalog --output-format text` lists the errors it knows, `modelguard rules` what a scan finds.")


def _short(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _SHOWN else shown[: _SHOWN - 3] + "..."


def _print_json(document: dict[str, Any]) -> None:
    import json

    click.echo(json.dumps(document, indent=2))


def _rule(rule: Rule) -> dict[str, object]:
    from modelguard.catalog import tagged

    sections = rule.sections()
    return {
        "schema_version": 1,
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity.value,
        "since": rule.since,
        "summary": rule.summary(),
        "what_it_does": sections["What it does"],
        "why_it_is_bad": sections["Why it is bad"],
        "use_instead": sections["Use instead"],
        "severity_text": sections["Severity"],
        "references": sections["References"],
        "errors": [record.id for record in tagged(rule.code)],
        "invalid": [
            {"source": example.text, "line": example.line, "attribute": example.attribute or None} for example in rule.INVALID
        ],
        "valid": [{"source": example.text} for example in rule.VALID],
    }
