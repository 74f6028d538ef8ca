"""What weakens a write, what makes it matter, what types decide, and what is no finding: see `reach_cases` for the format."""

from __future__ import annotations

from marked import in_net, whole

TRAINING = {
    "if": in_net("""
        def forward(self, x):
            if self.training:
                self.mean = x  # <- MG101 warning self.mean
            return x
    """),
    "and": in_net("""
        def forward(self, x):
            if x.ndim > 1 and self.training:
                self.mean = x  # <- MG101 warning self.mean
            return x
    """),
    "or": in_net("""
        def forward(self, x):
            if self.training or x.ndim > 1:
                self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "not": in_net("""
        def forward(self, x):
            if not self.training:
                return x
            self.mean = x  # <- MG101 warning self.mean
            return x
    """),
    "not-or": in_net("""
        def forward(self, x):
            if not self.training or x.ndim > 1:
                return x
            self.mean = x  # <- MG101 warning self.mean
            return x
    """),
    "else": in_net("""
        def forward(self, x):
            if not self.training:
                self.anchor = x  # <- MG103 warning self.anchor
            else:
                self.mean = x  # <- MG101 warning self.mean
            return x
    """),
    "flag-in-a-local": in_net("""
        def forward(self, x):
            updates = self.training and x.ndim > 1
            if updates:
                self.mean = x  # <- MG101 warning self.mean
            return x
    """),
    "expression": in_net("""
        def forward(self, x):
            self.training and self.history.append(x)  # <- MG105 note self.history
            return x
    """),
    "conditional-expression": in_net("""
        def forward(self, x):
            self.history.append(x) if self.training else None  # <- MG105 note self.history
            return x
    """),
    "helper-under-a-guard": in_net("""
        def forward(self, x):
            if self.training:
                self.step(x)
            return x

        def step(self, x):
            self.mean = x  # <- MG101 warning self.mean
    """),
    "helper-under-a-guard-and-without": in_net("""
        def forward(self, x):
            if self.training:
                self.step(x)
            self.step(x)
            return x

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
    """),
    "guard-in-the-helper": in_net("""
        def forward(self, x):
            self.step(x)
            return x

        def step(self, x):
            if not self.training:
                return
            self.mean = x  # <- MG101 warning self.mean
    """),
    "after-the-branch": in_net("""
        def forward(self, x):
            if self.training:
                x = x + 1
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
}

EAGER = {
    "not-compiling": in_net("""
        def forward(self, x):
            if not torch.compiler.is_compiling():
                self.mean = x
            return x
    """),
    "compiling-returns-early": in_net("""
        def forward(self, x):
            if torch.compiler.is_compiling():
                return x
            self.mean = x
            return x
    """),
    "compiling": in_net("""
        def forward(self, x):
            if torch.compiler.is_compiling():
                self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "and": in_net("""
        def forward(self, x):
            if x.ndim > 1 and not torch.compiler.is_compiling():
                self.mean = x
            return x
    """),
    "or": in_net("""
        def forward(self, x):
            if x.ndim > 1 or not torch.compiler.is_compiling():
                self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "flag-in-a-local": in_net("""
        def forward(self, x):
            eager = not torch.compiler.is_compiling()
            if eager:
                self.mean = x
            return x
    """),
    "imported-by-name": in_net(
        """
        def forward(self, x):
            if not is_compiling():
                self.mean = x
            return x
        """,
        before="from torch.compiler import is_compiling",
    ),
    "own-predicate": in_net(
        """
        def forward(self, x):
            if not captured():
                self.mean = x
            return x
        """,
        before="""
        def captured():
            return torch.compiler.is_compiling()
        """,
    ),
    "capturing": in_net("""
        def forward(self, x):
            if not torch.cuda.is_current_stream_capturing():
                self.mean = x
            return x
    """),
    "scripting": in_net("""
        def forward(self, x):
            if torch.jit.is_scripting():
                self.mean = x
            return x
    """),
    "not-scripting": in_net("""
        def forward(self, x):
            if not torch.jit.is_scripting():
                self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "helper": in_net("""
        def forward(self, x):
            if not torch.compiler.is_compiling():
                self.step(x)
            return x

        def step(self, x):
            self.mean = x
    """),
}

LAZY = {
    "is-none": in_net("""
        def forward(self, x):
            if self.mask is None:
                self.mask = torch.ones(8)  # <- MG109 warning self.mask
            return x * self.mask
    """),
    "is-none-from-the-input": in_net("""
        def forward(self, x):
            if self.mask is None:
                self.mask = torch.ones(x.shape[0])  # <- MG109 error self.mask
            return x * self.mask
    """),
    "not-is-not-none": in_net("""
        def forward(self, x):
            if not (self.mask is not None):
                self.mask = torch.ones(8)  # <- MG109 warning self.mask
            return x * self.mask
    """),
    "early-return": in_net("""
        def table(self):
            if self.mask is not None:
                return self.mask
            self.mask = torch.ones(8)  # <- MG109 warning self.mask
            return self.mask

        def forward(self, x):
            return x * self.table()
    """),
    "else": in_net("""
        def forward(self, x):
            if self.mask is not None:
                x = x * self.mask
            else:
                self.mask = torch.ones(8)  # <- MG109 warning self.mask
            return x
    """),
    "hasattr": in_net("""
        def forward(self, x):
            if not hasattr(self, "table"):
                self.table = torch.ones(8)  # <- MG109 warning self.table
            return x * self.table
    """),
    "getattr": in_net("""
        def forward(self, x):
            if getattr(self, "table", None) is None:
                self.table = torch.ones(8)  # <- MG109 warning self.table
            return x * self.table
    """),
    "instance-dict": in_net("""
        def forward(self, x):
            if "table" not in self.__dict__:
                self.table = torch.ones(8)  # <- MG109 warning self.table
            return x * self.table
    """),
    "walrus": in_net("""
        def forward(self, x):
            if (mask := self.mask) is None:
                mask = self.mask = torch.ones(8)  # <- MG109 warning self.mask
            return x * mask
    """),
    "local": in_net("""
        def forward(self, x):
            mask = self.mask
            if mask is None:
                mask = torch.ones(8)
                self.mask = mask  # <- MG109 warning self.mask
            return x * mask
    """),
    "flag-in-a-local": in_net("""
        def forward(self, x):
            missing = self.mask is None
            if missing:
                self.mask = torch.ones(8)  # <- MG109 warning self.mask
            return x * self.mask
    """),
    "attribute-error": in_net("""
        def forward(self, x):
            try:
                table = self.table
            except AttributeError:
                table = self.table = torch.ones(8)  # <- MG109 warning self.table
            return x * table
    """),
    "helper": in_net("""
        def forward(self, x):
            if self.mask is None:
                self.build()
            return x * self.mask

        def build(self):
            self.mask = torch.ones(8)  # <- MG109 warning self.mask
    """),
    "and": in_net("""
        def forward(self, x):
            self.mask is None and self.build()
            return x * self.mask

        def build(self):
            self.mask = torch.ones(8)  # <- MG109 warning self.mask
    """),
    "or": in_net("""
        def forward(self, x):
            self.mask is not None or self.build()
            return x * self.mask

        def build(self):
            self.mask = torch.ones(8)  # <- MG109 warning self.mask
    """),
    "filled-beside": in_net(
        """
        def forward(self, x):
            if self.mask is None:
                self.mask = torch.ones(8)  # <- MG109 warning self.mask
                self.table = torch.ones(8)  # <- MG109 warning self.table
            return x * self.mask + self.table
        """,
        init="self.table = None",
    ),
    "size": in_net("""
        def forward(self, x):
            if self.anchor.shape[0] < x.shape[0]:
                self.anchor = torch.ones(x.shape[0])  # <- MG109 error self.anchor
            return x * self.anchor[: x.shape[0]]
    """),
    "none-or-size": in_net("""
        def forward(self, x):
            if self.mask is None or self.mask.size(0) < x.size(0):
                self.mask = torch.ones(x.size(0))  # <- MG109 error self.mask
            return x * self.mask
    """),
    "dtype": in_net("""
        def forward(self, x):
            if self.anchor.dtype != x.dtype:
                self.anchor = self.anchor.to(x.dtype)  # <- MG109 error self.anchor
            return x * self.anchor
    """),
    "length-kept-as-a-number": in_net("""
        def forward(self, x):
            if x.shape[0] > self.n:
                self.n = x.shape[0]  # <- MG104 error self.n
            return x[: self.n]
    """),
    "key": in_net("""
        def forward(self, x):
            if "mask" not in self.cache:
                self.cache["mask"] = torch.ones(8)  # <- MG109 warning self.cache
            return x * self.cache["mask"]
    """),
    "key-from-the-input": in_net("""
        def forward(self, x):
            if x.shape[0] not in self.cache:
                self.cache[x.shape[0]] = torch.ones(x.shape[0])  # <- MG109 error self.cache
            return x * self.cache[x.shape[0]]
    """),
    "key-error": in_net("""
        def forward(self, x):
            try:
                mask = self.cache["mask"]
            except KeyError:
                mask = self.cache["mask"] = torch.ones(8)  # <- MG109 warning self.cache
            return x * mask
    """),
    "get-and-walrus": in_net("""
        def forward(self, x):
            if (mask := self.cache.get("mask")) is None:
                mask = self.cache["mask"] = torch.ones(8)  # <- MG109 warning self.cache
            return x * mask
    """),
    "other-attribute-asked": in_net("""
        def forward(self, x):
            if self.config is None:
                self.anchor = torch.ones(8)  # <- MG103 warning self.anchor
            return x
    """),
}

CARRIED = {
    "written-then-read": in_net("""
        def forward(self, x):
            self.anchor = x * 2  # <- MG103 warning self.anchor
            return x + self.anchor
    """),
    "read-then-written": in_net("""
        def forward(self, x):
            y = x + self.anchor
            self.anchor = x  # <- MG103 error self.anchor
            return y
    """),
    "only-updates-itself": in_net("""
        def forward(self, x):
            self.n += 1  # <- MG104 warning self.n
            return x
    """),
    "written-in-one-branch": in_net("""
        def forward(self, x):
            if x.ndim > 2:
                self.anchor = x  # <- MG103 error self.anchor
            return x + self.anchor
    """),
    "written-in-both-branches": in_net("""
        def forward(self, x):
            if x.ndim > 2:
                self.anchor = x  # <- MG103 warning self.anchor
            else:
                self.anchor = -x  # <- MG103 warning self.anchor
            return x + self.anchor
    """),
    "written-in-a-helper": in_net("""
        def forward(self, x):
            self.step(x)
            return x + self.anchor

        def step(self, x):
            self.anchor = x  # <- MG103 warning self.anchor
    """),
    "read-in-a-helper": in_net("""
        def forward(self, x):
            y = self.shifted(x)
            self.anchor = x  # <- MG103 error self.anchor
            return y

        def shifted(self, x):
            return x + self.anchor
    """),
    "written-after-an-early-return": in_net("""
        def forward(self, x):
            if x.ndim > 2:
                return x + self.anchor
            self.anchor = x  # <- MG103 error self.anchor
            return x
    """),
    "written-in-a-helper-on-one-way": in_net("""
        def forward(self, x):
            self.step(x)
            return x + self.anchor

        def step(self, x):
            if x.ndim > 2:
                return
            self.anchor = x  # <- MG103 error self.anchor
    """),
    "written-in-a-loop": in_net("""
        def forward(self, x):
            for row in x:
                y = row + self.anchor
                self.anchor = row  # <- MG103 error self.anchor
            return y
    """),
    "written-in-a-loop-that-may-not-run": in_net("""
        def forward(self, x):
            for row in x:
                self.anchor = row  # <- MG103 error self.anchor
            return x + self.anchor
    """),
    "read-through-an-alias": in_net("""
        def forward(self, x):
            net = self
            y = x + net.anchor
            self.anchor = x  # <- MG103 error self.anchor
            return y
    """),
    "read-by-getattr": in_net("""
        def forward(self, x):
            y = x + getattr(self, "anchor")
            self.anchor = x  # <- MG103 error self.anchor
            return y
    """),
    "read-in-a-condition": in_net("""
        def forward(self, x):
            if self.n > 3:
                x = -x
            self.n += 1  # <- MG104 error self.n
            return x
    """),
    "bound-anew-before-it-grows": in_net("""
        def forward(self, x):
            self.history = []  # <- MG104 warning self.history
            self.history.append(x)  # <- MG105 warning self.history
            return torch.stack(self.history)
    """),
    "grows-and-is-read": in_net("""
        def forward(self, x):
            self.history.append(x)  # <- MG105 error self.history
            return torch.stack(self.history)
    """),
    "grows-and-only-its-copy-is-read": in_net("""
        def forward(self, x):
            kept = list(self.history)
            self.history.append(x)  # <- MG105 error self.history
            return torch.stack(kept)
    """),
    "handed-out-and-not-read": in_net("""
        def kept(self):
            return self.history

        def forward(self, x):
            self.kept().append(x)  # <- MG105 warning self.history
            return x
    """),
    "child-called-that-does-not-read-it": in_net("""
        def forward(self, x):
            for layer in self.layers:
                layer.n += 1  # <- MG104 warning self.layers[*].n
                x = layer(x)
            return x
    """),
    "only-its-length-is-read": in_net("""
        def forward(self, x):
            for index in range(len(self.layers)):
                self.layers[index].n = index  # <- MG104 warning self.layers[*].n
            return x
    """),
    "global-that-is-read-whole": in_net(
        """
        def forward(self, x):
            KEPT.append(x)  # <- MG111 error KEPT
            return torch.stack(KEPT)
        """,
        before="KEPT = []",
    ),
    "with-statement": in_net("""
        def forward(self, x):
            with torch.no_grad():
                self.anchor = x  # <- MG103 warning self.anchor
            return x + self.anchor
    """),
    "finally": in_net("""
        def forward(self, x):
            try:
                y = self.proj(x)
            finally:
                self.anchor = x  # <- MG103 warning self.anchor
            return y + self.anchor
    """),
    "match": in_net("""
        def forward(self, x):
            match x.ndim:
                case 1:
                    self.anchor = x  # <- MG103 warning self.anchor
                case _:
                    self.anchor = -x  # <- MG103 warning self.anchor
            return x + self.anchor
    """),
}

TYPES = {
    "buffer-of-a-base": whole("""
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(4))

        class Net(Base):
            def forward(self, x):
                self.mean = x  # <- MG101 error self.mean
                return x
    """),
    "buffer-of-a-mixin": whole("""
        class Averaged:
            def setup(self):
                self.register_buffer("mean", torch.zeros(4))

        class Net(Averaged, nn.Module):
            def forward(self, x):
                self.mean = x  # <- MG101 error self.mean
                return x
    """),
    "buffer-class": in_net(
        """
        def forward(self, x):
            self.total = x  # <- MG101 error self.total
            return x
        """,
        init="self.total = nn.Buffer(torch.zeros(width))",
    ),
    "buffer-that-is-none": in_net(
        """
        def forward(self, x):
            self.total = x  # <- MG101 error self.total
            return x
        """,
        init='self.register_buffer("total", None)',
    ),
    "buffers-in-a-loop": in_net(
        """
        def forward(self, x):
            self.low = x  # <- MG101 error self.low
            return x
        """,
        init="""
        for name in ("low", "high"):
            self.register_buffer(name, torch.zeros(width))
        """,
    ),
    "buffers-by-number": in_net(
        """
        def forward(self, x):
            self.level_0 = x  # <- MG101 error self.level_0
            return x
        """,
        init="""
        for number in range(2):
            self.register_buffer(f"level_{number}", torch.zeros(width))
        """,
    ),
    "buffer-by-a-helper": in_net(
        """
        def forward(self, x):
            self.total = x  # <- MG101 error self.total
            return x
        """,
        init='add_state(self, "total", torch.zeros(width))',
        before="""
        def add_state(net, name, value):
            net.register_buffer(name, value)
        """,
    ),
    "buffer-of-batch-norm": whole("""
        class Net(nn.BatchNorm1d):
            def forward(self, x):
                self.running_mean = x.mean(0)  # <- MG101 error self.running_mean
                return super().forward(x)
    """),
    "buffer-of-a-child": in_net("""
        def forward(self, x):
            self.layers[0].scale = x  # <- MG101 error self.layers[*].scale
            return x
    """),
    "parameter-that-may-be-none": in_net(
        """
        def forward(self, x):
            self.bias = x  # <- MG102 error self.bias
            return x
        """,
        init="self.bias = nn.Parameter(torch.zeros(width)) if config else None",
    ),
    "tensor-annotated": whole("""
        class Net(nn.Module):
            state: torch.Tensor

            def forward(self, x):
                self.state += x  # <- MG108 note self.state
                return x
    """),
    "number-annotated": whole("""
        class Net(nn.Module):
            steps: int

            def forward(self, x):
                self.steps += 1  # <- MG104 warning self.steps
                return x
    """),
    "number-becomes-tensor": in_net("""
        def forward(self, x):
            self.n += x.sum()  # <- MG103 warning self.n
            return x
    """),
    "augmented-unknown": in_net(
        """
        def forward(self, x):
            self.total += 1  # <- MG104 warning self.total
            return x
        """,
        init="self.total = config",
    ),
    "dict-from-an-argument": whole("""
        class Net(nn.Module):
            def __init__(self, store: dict):
                super().__init__()
                self.store = store

            def forward(self, x):
                self.store.update(x=x)  # <- MG105 warning self.store
                return x
    """),
    "dict-from-a-function": in_net(
        """
        def forward(self, x):
            self.store.update(x=x)  # <- MG105 warning self.store
            return x
        """,
        init="self.store = make()",
        before="""
        def make():
            return {"x": None}
        """,
    ),
    "dict-in-the-class-body": in_net("""
        store: dict[str, torch.Tensor] = {}

        def forward(self, x):
            self.store.update(x=x)  # <- MG105 warning self.store
            return x
    """),
    "container-of-the-project": in_net(
        """
        def forward(self, x):
            self.store.append(x)  # <- MG105 warning self.store
            return x
        """,
        init="self.store = Store()",
        before="""
        class Store(list):
            pass
        """,
    ),
    "update-of-a-module-of-the-project": in_net(
        """
        def forward(self, x):
            self.meter.update(x)
            return x
        """,
        init="self.meter = Meter()",
        before="""
        class Meter(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("total", torch.zeros(4))

            def update(self, x):
                self.total += x  # <- MG108 note self.total
        """,
    ),
    "attribute-bound-in-another-method": in_net("""
        def reset(self):
            self.steps = 0

        def forward(self, x):
            self.steps += 1  # <- MG104 warning self.steps
            return x
    """),
    "two-types": in_net(
        """
        def forward(self, x):
            self.state = x  # <- MG101 error self.state
            return x
        """,
        init="""
        if config:
            self.register_buffer("state", torch.zeros(width))
        else:
            self.state = None
        """,
    ),
}

CLEAN = {
    "constructor": in_net("""
        def forward(self, x):
            return self.proj(x) * self.mean
    """),
    "constructor-helper": in_net(
        """
        def reset(self):
            self.mean = torch.ones(4)

        def forward(self, x):
            return x * self.mean
        """,
        init="self.reset()",
    ),
    "method-that-nobody-calls": in_net("""
        def prepare(self, x):
            self.mean = x

        def forward(self, x):
            return x * self.mean
    """),
    "reset-parameters": in_net("""
        def reset_parameters(self):
            nn.init.zeros_(self.weight)
            self.history.clear()

        def forward(self, x):
            return x * self.weight
    """),
    "locals": in_net("""
        def forward(self, x):
            mean, n = self.mean, self.n
            mean = mean + x
            n += 1
            items = []
            items.append(mean)
            table = {"n": n}
            table.update(n=n + 1)
            return torch.stack(items) / table["n"]
    """),
    "local-of-the-name-of-an-attribute": in_net("""
        def forward(self, x):
            history = []
            history.append(x)
            return history
    """),
    "shadowed-self": in_net("""
        def forward(self, x):
            def build(self):
                self.mean = x
                return self

            return build(type("Record", (), {})()).mean
    """),
    "keyword-arguments": in_net("""
        def forward(self, x, **kwargs):
            kwargs.update(scale=2)
            kwargs["bias"] = None
            kwargs.pop("bias")
            return F.linear(x, self.weight, **kwargs)
    """),
    "method-of-an-argument": in_net("""
        def forward(self, x, past_key_values=None):
            if past_key_values is not None:
                x = past_key_values.update(x, x, 0)
            return x
    """),
    "in-place-on-an-argument": in_net("""
        def forward(self, x):
            x.mul_(2)
            x += 1
            x[0] = 0
            return x
    """),
    "in-place-on-a-new-tensor": in_net("""
        def forward(self, x):
            y = self.mean * 2
            y += x
            y.mul_(2)
            z = self.mean.clone()
            z[0] = 1
            return F.relu_(y) + z.zero_()
    """),
    "copies-of-containers": in_net("""
        def forward(self, x):
            cache = dict(self.cache)
            cache["x"] = x
            history = list(self.history)
            history.append(x)
            others = self.cache.copy()
            others.clear()
            more = self.history + [x]
            more.pop()
            spread = {**self.cache}
            spread.update(x=x)
            last = self.history[:]
            last.append(x)
            return cache, history, others, more, spread, last
    """),
    "sorted-copy": in_net("""
        def forward(self, x):
            names = sorted(self.cache)
            names.append("x")
            return [self.cache[name] for name in names[:-1]]
    """),
    "autograd-context": whole("""
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.scale = 2
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.scale

        class Net(nn.Module):
            def forward(self, x):
                return Double.apply(x)
    """),
    "no-module": whole("""
        class Pipeline:
            def forward(self, x):
                self.last = x
                return x

        class Loss(Pipeline):
            def forward(self, x):
                self.steps = 1
                return super().forward(x)
    """),
    "hash": in_net(
        """
        def forward(self, x):
            digest = hashlib.sha256()
            digest.update(b"x")
            return x
        """,
        before="import hashlib",
    ),
    "progress-bar": in_net(
        """
        def forward(self, x):
            bar = tqdm(total=3)
            for layer in self.layers:
                x = layer(x)
                bar.update(1)
            return x
        """,
        before="from tqdm import tqdm",
    ),
    "new-object": in_net(
        """
        def forward(self, x):
            record = Record()
            record.value = x
            record.values.append(x)
            return record
        """,
        before="""
        class Record:
            def __init__(self):
                self.value = None
                self.values = []
        """,
    ),
    "new-object-fills-itself": in_net(
        """
        def forward(self, x):
            return Record(x).filled()
        """,
        before="""
        class Record:
            def __init__(self, value):
                self.value = value

            def filled(self):
                self.value = self.value + 1
                return self
        """,
    ),
    "local-function-state": in_net("""
        def forward(self, x):
            depth = 0

            def visit(layer):
                nonlocal depth
                depth += 1
                return layer(x)

            return [visit(layer) for layer in self.layers], depth
    """),
    "memoised-number": in_net(
        """
        def forward(self, x):
            return x * scale(4)
        """,
        before="""
        @functools.lru_cache
        def scale(width: int) -> float:
            return width**-0.5
        """,
    ),
    "property-that-reads": in_net("""
        @property
        def scale(self):
            return self.n * 2

        def forward(self, x):
            return x * self.scale
    """),
    "batch-norm-without-statistics": in_net("""
        def forward(self, x):
            return F.batch_norm(x, None, None, self.weight, training=True)
    """),
    "batch-norm-in-evaluation": in_net("""
        def forward(self, x):
            return F.batch_norm(x, self.mean, self.mean, training=False)
    """),
    "dict-read": in_net("""
        def forward(self, x):
            return x * len(self.cache.get("x", ())) + sum(self.cache.values())
    """),
    "defaultdict-asked": in_net(
        """
        def forward(self, x):
            return x * len(self.slots.get("x", ()))
        """,
        init="self.slots = collections.defaultdict(list)",
    ),
    "string-methods": in_net("""
        def forward(self, x):
            name = "layer"
            name += "_1"
            return x * len(name.replace("l", ""))
    """),
    "context-of-the-framework": in_net("""
        def forward(self, x):
            with torch.no_grad(), torch.autocast("cuda"):
                return self.proj(x)
    """),
    "hook-that-reads": in_net(
        """
        def forward(self, x):
            return x
        """,
        init="self.register_forward_hook(lambda module, args, output: output * 2)",
    ),
    "mutator-of-a-class": in_net(
        """
        def forward(self, x):
            Registry.update(x)
            return x
        """,
        before="""
        class Registry(dict):
            pass
        """,
    ),
    "dead-branch": in_net("""
        def forward(self, x):
            if False:
                self.mean = x
            return x
    """),
    "dataclass-replaced": in_net(
        """
        def forward(self, x):
            state = dataclasses.replace(self.state, last=x)
            return state
        """,
        init="self.state = State()",
        before="""
        import dataclasses

        @dataclasses.dataclass
        class State:
            last: object = None
        """,
    ),
    "self-in-a-docstring": in_net('''
        def forward(self, x):
            """Sets nothing.

            self.mean = x
            """
            return x
    '''),
} | {
    f"not-in-place-{call}": in_net(f"""
        def forward(self, x):
            y = {call}
            return y
    """)
    for call in ("self.mean.add(x)", "self.mean.to(x.dtype)", "torch.add(self.mean, x)", "self.weight.data.clone()")
}
