"""MG106: buffers, parameters, submodules, hooks and methods that the step installs."""

from __future__ import annotations

from modelguard.findings import Applicability, Effect, GuardContext, Severity
from modelguard.observation import Kind, Operation, StateWrite
from modelguard.rules.base import Invalid, Repair, Rule, Valid, Verdict
from modelguard.rules.reading import fills_once, holds, is_shared, tensor_word, within

_REGISTERING = ("register", "add")


class RegisteredInForward(Rule):
    """A buffer, parameter, submodule or hook is created or registered in `forward`.

    ## What it does

    Reports `register_buffer`, `register_parameter`, `register_module` and `add_module`, an `nn.Parameter` or a module
    bound to an attribute, a submodule replaced, `nn.ModuleList` and `nn.ModuleDict` changed, a hook registered and a
    method replaced on an instance, when they run on behalf of `forward`.

    ## Why it is bad

    What is registered in the first step has no place in the optimizer, in a checkpoint loaded before it, or in a graph
    that was captured before. If the first step is the captured one, the memory of the new tensor belongs to the graph
    and is overwritten by replays. Dynamo cannot trace the registration of hooks and falls back to eager mode, and a
    hook that is registered on each call piles up.

    ## Use instead

    Register in `__init__`, with `nn.LazyLinear` and its like where a size is known only later, and in a method that is
    called once after loading where the content comes from outside. To choose between functions or children, keep
    all of them and pick one in `forward`, instead of replacing an attribute.

    ## Severity

    Error; warning for a hook or a replaced method, which change behaviour but no tensor. A write that only training
    reaches is reported one level lower.

    ## References

    - [CUDA graphs: constraints](https://docs.pytorch.org/docs/stable/notes/cuda.html#constraints)
    - [PyTorch: a hook registered in `forward`](https://github.com/pytorch/pytorch/issues/149047)
    - [PyTorch: a child's `forward` replaced while tracing](https://github.com/pytorch/pytorch/pull/177521)
    """

    code = "MG106"
    name = "registered-in-forward"
    severity = Severity.ERROR
    since = "0.1"

    INVALID = (
        Invalid(
            """
            import torch
            from torch import nn


            class Masked(nn.Module):
                def forward(self, x):
                    if not hasattr(self, "mask"):
                        mask = torch.ones(x.shape[-1], x.shape[-1]).tril()
                        self.register_buffer("mask", mask, persistent=False)
                    return x @ self.mask
            """,
            line=9,
            attribute="self.mask",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Causal(nn.Module):
                def __init__(self, size):
                    super().__init__()
                    self.size = size

                def forward(self, x):
                    if not hasattr(self, "mask"):
                        self.register_buffer("mask", torch.ones(self.size, self.size).tril())
                    return x @ self.mask
            """,
            line=12,
            attribute="self.mask",
            severity=Severity.ERROR,
            repair=Repair(
                Applicability.UNSAFE,
                (
                    (
                        """        if not hasattr(self, "mask"):
            self.register_buffer("mask", torch.ones(self.size, self.size).tril())
""",
                        "",
                    ),
                    (
                        """        self.size = size
""",
                        """        self.size = size
        self.register_buffer("mask", torch.ones(self.size, self.size).tril())
""",
                    ),
                ),
            ),
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class LateHead(nn.Module):
                def __init__(self, classes):
                    super().__init__()
                    self.classes = classes
                    self.head = None

                def forward(self, x):
                    if self.head is None:
                        self.head = nn.Linear(x.shape[-1], self.classes)
                    return self.head(x)
            """,
            line=13,
            attribute="self.head",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            from torch import nn


            class Observed(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.body = nn.Linear(width, width)

                def forward(self, x):
                    handle = self.body.register_forward_hook(lambda module, args, output: output.relu())
                    y = self.body(x)
                    handle.remove()
                    return y
            """,
            line=10,
            attribute="self.body",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Patched(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.child = nn.Identity()

                def forward(self, x):
                    setattr(self.child, "forward", torch.neg)
                    return self.child(x)
            """,
            line=11,
            attribute="self.child.forward",
            severity=Severity.WARNING,
        ),
        Invalid(
            """
            from torch import nn


            class Deeper(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.width = width
                    self.layers = nn.ModuleList([nn.Linear(width, width)])

                def forward(self, x):
                    layers = self.layers
                    layers.append(nn.Linear(self.width, self.width))
                    for layer in layers:
                        x = layer(x)
                    return x
            """,
            line=12,
            attribute="self.layers",
            severity=Severity.ERROR,
        ),
        Invalid(
            """
            import torch
            from torch import nn


            class Lifted(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.scale = torch.ones(width)

                def _lift(self):
                    self.scale = nn.Parameter(self.scale)

                def forward(self, x):
                    self._lift()
                    return x * self.scale
            """,
            line=11,
            attribute="self.scale",
            severity=Severity.ERROR,
        ),
    )

    VALID = (
        Valid(
            """
            import torch
            from torch import nn


            class Masked(nn.Module):
                def __init__(self, limit):
                    super().__init__()
                    self._build(limit)

                def _build(self, limit):
                    self.register_buffer("mask", torch.ones(limit, limit).tril(), persistent=False)

                def forward(self, x):
                    length = x.shape[-1]
                    return x @ self.mask[:length, :length]
            """
        ),
        Valid(
            """
            from torch import nn


            class LateHead(nn.Module):
                def __init__(self, classes):
                    super().__init__()
                    self.head = nn.LazyLinear(classes)

                def forward(self, x):
                    return self.head(x)
            """
        ),
        Valid(
            """
            from torch import nn


            class Shuffled(nn.Module):
                def __init__(self, width, depth):
                    super().__init__()
                    self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

                def forward(self, x):
                    order = list(self.layers)
                    order.append(order.pop(0))
                    tower = nn.Sequential(*order)
                    return tower(x)
            """
        ),
        Valid(
            """
            from torch import nn


            def relu_after(module, args, output):
                return output.relu()


            class Observed(nn.Module):
                def __init__(self, width):
                    super().__init__()
                    self.body = nn.Linear(width, width)
                    self.body.register_forward_hook(relu_after)

                def forward(self, x):
                    return self.body(x)
            """
        ),
    )

    def check(self, write: StateWrite) -> Verdict | None:
        if write.operation is Operation.REGISTER:
            if write.verb.endswith("hook"):
                return self._hook(write)
            if holds(write.value, Kind.FUNCTION) and not write.verb.startswith(_REGISTERING):
                return self._method(write)
            return self._registered(write)
        if write.operation is Operation.REBIND and not self._belongs_elsewhere(write):
            if self._installs(write):
                return self._registered(write)
            if self._replaces_a_method(write):
                return self._method(write)
        if write.operation in (Operation.ITEM, Operation.MUTATE) and holds(write.declared, Kind.MODULE):
            return self._registered(write)
        return None

    @staticmethod
    def _belongs_elsewhere(write: StateWrite) -> bool:
        once = write.guard is GuardContext.LAZY and fills_once(write)
        return once or is_shared(write) or not holds(write.owner, Kind.MODULE | Kind.UNKNOWN)

    @staticmethod
    def _installs(write: StateWrite) -> bool:
        if holds(write.value, Kind.MODULE):
            return True
        registered = Kind.PARAMETER | Kind.BUFFER
        if within(write.value, registered) and not within(write.declared, registered):
            return True
        if holds(write.value, registered) and not holds(write.declared, registered):
            return True
        replaces = holds(write.declared, Kind.MODULE) and holds(write.owner, Kind.MODULE)
        return replaces and not within(write.value, Kind.NONE)

    @staticmethod
    def _replaces_a_method(write: StateWrite) -> bool:
        if not holds(write.owner, Kind.MODULE):
            return False
        return write.path.endswith(".forward") or (holds(write.declared, Kind.FUNCTION) and holds(write.value, Kind.FUNCTION))

    @staticmethod
    def _registered(write: StateWrite) -> Verdict:
        what, how = _subject(write)
        message = (
            f"{what} `{write.path}` is {how} in `{write.function}`: replay does not run this line, so a captured graph keeps "
            "what it saw at capture, and the optimizer and earlier checkpoints do not know it"
        )
        task = "add the children of" if write.operation in (Operation.ITEM, Operation.MUTATE) else "create"
        advice = f"{task} `{write.path}` in `__init__`, or in a method that is called once before the step is captured"
        return Verdict(Severity.ERROR, message, advice, Effect.LOST)

    @staticmethod
    def _hook(write: StateWrite) -> Verdict:
        message = (
            f"a hook is attached to `{write.path}` with `.{write.verb}(...)` in `{write.function}`: it cannot be traced, "
            "replay does not run it, and it piles up with each eager call unless it is removed"
        )
        advice = f"register the hook on `{write.path}` once, after the model is built, or call what it does directly"
        return Verdict(Severity.WARNING, message, advice, Effect.LOST)

    @staticmethod
    def _method(write: StateWrite) -> Verdict:
        message = (
            f"method `{write.path}` is replaced in `{write.function}`: a captured or compiled step keeps the function it saw "
            "first, so eager mode and replay can run different code"
        )
        advice = f"choose the function before the step is captured, or call the other function directly instead of `{write.path}`"
        return Verdict(Severity.WARNING, message, advice, Effect.FROZEN)


def _subject(write: StateWrite) -> tuple[str, str]:
    if write.operation in (Operation.ITEM, Operation.MUTATE):
        return "module container", "changed"
    if "buffer" in write.verb:
        return "buffer", "registered"
    if "parameter" in write.verb:
        return "parameter", "registered"
    if "module" in write.verb or holds(write.value | write.declared, Kind.MODULE):
        return "submodule", "assigned"
    if holds(write.value, Kind.PARAMETER | Kind.BUFFER):
        return tensor_word(write.value), "created"
    return "attribute", "registered"
