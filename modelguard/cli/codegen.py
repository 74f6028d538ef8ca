"""`modelguard codegen`: the generated code of a model."""

from __future__ import annotations

import sys
import warnings
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from modelguard.cli.remarks import remark
from modelguard.errors import ModelguardError

if TYPE_CHECKING:
    from modelguard.codegen import Generated
    from modelguard.runtime.side_effects import SideEffect
    from modelguard.runtime.targets import Target

TRACERS = ("dynamo", "export", "fx", "make_fx")


@click.command("codegen")
@click.argument("target")
@click.option(
    "--tracer",
    type=click.Choice(TRACERS),
    default="dynamo",
    show_default=True,
    help="What traces the model: Dynamo, as torch.compile and serving engines do; torch.export; fx.symbolic_trace; make_fx.",
)
@click.option(
    "--split-op",
    "split_ops",
    multiple=True,
    metavar="OP",
    help="Cut the graph at calls of OP, such as aten::mm or torch.nn.functional.relu. May be given again.",
)
@click.option("--output-file", metavar="FILE", help="Write the code there, not to stdout.")
@click.option("--save", metavar="FILE", help="Also keep code, names and constants in FILE, for modelguard.codegen.load_artifact.")
def command(target: str, tracer: str, split_ops: tuple[str, ...], output_file: str | None, save: str | None) -> None:
    """Trace a model and print the Python code that runs its graph.

    TARGET is package.module:callable or path/to/file.py:callable. It is called without arguments, and returns a module and
    what to call it with: (module, args), (module, args, kwargs) or (module, calls). It is imported and run here.
    """
    generated = _generated(target, tracer, split_ops)
    if save is not None:
        from modelguard.codegen import save_artifact

        save_artifact(save, generated.code, generated.submod_names, generated.consts)
    if output_file is None:
        click.echo(generated.code, nl=False)
        return
    try:
        with open(output_file, "w", encoding="utf-8") as stream:
            stream.write(generated.code)
    except OSError as error:
        raise ModelguardError(f"cannot write {output_file}: {error.strerror}") from None


def _generated(target: str, tracer: str, split_ops: tuple[str, ...]) -> Generated:
    # torch has something to say of an environment without numpy, which is none of the model's business.
    warnings.filterwarnings("ignore", "Failed to initialize NumPy")
    try:
        from modelguard.codegen import UncutWarning, generate, trace
        from modelguard.runtime.targets import load_target
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ModelguardError(
            "`modelguard codegen` needs torch; install modelguard with its extra `runtime` where the model runs"
        ) from None
    loaded = load_target(target)
    if not loaded.calls and tracer != "fx":
        raise ModelguardError(
            f"{target} gives no arguments to trace the model with; return (module, args), or use --tracer fx, which needs none"
        )
    arguments = loaded.calls[0] if loaded.calls else ()
    with redirect_stdout(sys.stderr):
        for effect in _side_effects(loaded, arguments):
            remark(f"modelguard: {effect}: generated code is not sure to do so; `modelguard confirm` shows what comes of it")
        graph = trace(loaded.model, arguments, loaded.kwargs, tracer=tracer).graph  # type: ignore[arg-type]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UncutWarning)
        generated = generate(graph, split_ops)
    for each in told:
        remark(f"modelguard: {each.message}")
    return generated


def _side_effects(loaded: Target, arguments: tuple[Any, ...]) -> list[SideEffect]:
    from modelguard.runtime.copying import deep_copied
    from modelguard.runtime.errors import CopyError
    from modelguard.runtime.observing import side_effects_of
    from modelguard.runtime.state import apart

    if not loaded.calls:
        return []
    try:
        with apart(loaded.model):
            return side_effects_of(*deep_copied((loaded.model, [arguments], loaded.kwargs)))[0]
    except CopyError as error:
        remark(f"modelguard: whether the model writes state was not looked at: {error}")
        return []
