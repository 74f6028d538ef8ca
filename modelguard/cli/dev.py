"""`modelguard dev`: commands for whoever works on modelguard itself."""

from __future__ import annotations

import os
import re

import click

from modelguard import __version__
from modelguard.errors import ModelguardError

_RULES = os.path.join("modelguard", "rules")
_CODE = re.compile(r"MG[1-9]\d\d")
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)+")
_IMPORT = re.compile(r"^from modelguard\.rules\.(\w+) import .*\n", re.MULTILINE)
_TABLE = "RULES: tuple[Rule, ...] = (\n"

_SKELETON = '''\
"""{code}: TODO what is wrong, in a few words."""

from __future__ import annotations

from modelguard.findings import Severity
from modelguard.observation import StateWrite
from modelguard.rules.base import Invalid, Rule, Valid, Verdict


class {class_name}(Rule):
    """TODO: what is wrong, in one sentence.

    ## What it does

    TODO: reports which code.

    ## Why it is bad

    TODO: what a replayed graph makes of it.

    ## Use instead

    TODO: what to write, as the first of VALID does.

    ## Severity

    TODO: Error. When it is less.

    ## References

    - TODO: a link
    """

    code = "{code}"
    name = "{name}"
    severity = Severity.ERROR
    since = "{since}"

    INVALID = (
        Invalid(
            """
            from torch import nn


            class Net(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.todo = 0

                def forward(self, x):
                    self.todo += 1
                    return x * self.todo
            """,
            line=10,
            attribute="self.todo",
        ),
    )

    VALID = (
        Valid(
            """
            from torch import nn


            class Net(nn.Module):
                def forward(self, x):
                    return x
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        # TODO: of the writes that are this rule's, the verdict.
        return None
'''


@click.group("dev")
def command() -> None:
    """Work on modelguard itself, at the top of a checkout."""


@command.command("new-rule")
@click.argument("code")
@click.argument("name")
def new_rule(code: str, name: str) -> None:
    """Write the file of a new rule, with its examples to fill in, and put the rule among the others.

    CODE is a free one, such as MG115; NAME says what was found, such as attribute-deleted. The tests of the rule fail until
    documentation, examples and `check` are there: CONTRIBUTING.md says what belongs where.
    """
    _check(code, name)
    module = f"{code.lower()}_{name.replace('-', '_')}"
    path = os.path.join(_RULES, f"{module}.py")
    table = os.path.join(_RULES, "__init__.py")
    class_name = "".join(part.capitalize() for part in name.split("-"))
    try:
        with open(table, encoding="utf-8") as stream:
            listed = _with_rule(stream.read(), module, class_name)
        with open(path, "x", encoding="utf-8", newline="\n") as stream:
            since = ".".join(__version__.split(".")[:2])
            stream.write(_SKELETON.format(code=code, name=name, class_name=class_name, since=since))
        with open(table, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(listed)
    except FileExistsError:
        raise ModelguardError(f"{path} is there already; it stays as it is") from None
    except FileNotFoundError:
        raise ModelguardError(f"there is no {table} here; run this at the top of a checkout of modelguard") from None
    except OSError as error:
        raise ModelguardError(f"cannot write {error.filename}: {error.strerror}") from None
    click.echo(f"{path}: fill in what is marked TODO")
    click.echo(f"{table}: the rule is first in RULES; move it, if another one goes before it")
    click.echo("then: python -m modelguard.rules.pages, and pytest tests/test_rules.py")


def _check(code: str, name: str) -> None:
    from modelguard.rules import by_code

    if _CODE.fullmatch(code) is None:
        raise click.UsageError(f"{code!r} is no code: write MG and three digits, such as MG115")
    if code in by_code:
        raise click.UsageError(f"{code} is {by_code[code].name}; take a code that was never used")
    if _NAME.fullmatch(name) is None:
        raise click.UsageError(
            f"{name!r} is no name for a rule: write words in lower case with hyphens, such as attribute-deleted"
        )
    for rule in by_code.values():
        if rule.name == name:
            raise click.UsageError(f"{name} is the name of {rule.code}")


def _with_rule(text: str, module: str, class_name: str) -> str:
    """The text of the package of rules, with one more in it."""
    line = f"from modelguard.rules.{module} import {class_name}\n"
    before = [found.end() for found in _IMPORT.finditer(text) if found[1] < module]
    if not before or _TABLE not in text:
        raise ModelguardError(f"{_RULES} has another shape than this command knows; add the rule to it by hand")
    text = text[: before[-1]] + line + text[before[-1] :]
    return text.replace(_TABLE, f"{_TABLE}    {class_name}(),\n", 1)
