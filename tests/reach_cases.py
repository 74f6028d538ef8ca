"""What a scan must see, and what it must leave alone: methods of `Net` (see `marked`), or whole modules."""

from __future__ import annotations

from marked import in_net, whole

CALLS = {
    "entry-point": in_net("""
        def forward(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "entry-point-on-the-line-of-its-docstring": in_net('''
        def forward(self, x):
            """Words."""; setattr(self, "mean", x)  # <- MG101 error self.mean
            return x
    '''),
    "other-entry-point": in_net("""
        def forward_cuda(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "helper-method": in_net("""
        def forward(self, x):
            return self.step(x)

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "helper-of-a-helper": in_net("""
        def forward(self, x):
            return self.outer(x)

        def outer(self, x):
            return self.inner(x)

        def inner(self, x):
            self.history.append(x)  # <- MG105 warning self.history
            return x
    """),
    "recursion": in_net("""
        def forward(self, x, depth=3):
            return self.descend(x, depth)

        def descend(self, x, depth):
            if depth:
                return self.descend(x, depth - 1)
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "inherited-method": whole("""
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(4))

            def step(self, x):
                self.mean = x  # <- MG101 error self.mean
                return x

        class Net(Base):
            def forward(self, x):
                return self.step(x)
    """),
    "inherited-entry-point": whole("""
        class Base(nn.Module):
            def forward(self, x):
                return self.step(x)

        class Net(Base):
            def __init__(self):
                super().__init__()
                self.steps = 0

            def step(self, x):
                self.steps += 1  # <- MG104 error self.steps
                return x / self.steps
    """),
    "super": whole("""
        class Base(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("mean", torch.zeros(4))

            def forward(self, x):
                self.mean = x  # <- MG101 error self.mean
                return x

        class Net(Base):
            def forward(self, x):
                return super().forward(x) + 1
    """),
    "super-of-a-mixin": whole("""
        class Recording:
            def forward(self, x):
                self.last = x  # <- MG103 warning self.last
                return super().forward(x)

        class Plain(nn.Module):
            def forward(self, x):
                return x

        class Net(Recording, Plain):
            pass
    """),
    "super-with-arguments": whole("""
        class Base(nn.Module):
            def step(self, x):
                self.last = x  # <- MG103 warning self.last
                return x

        class Net(Base):
            def step(self, x):
                return x

            def forward(self, x):
                return super(Net, self).step(x)
    """),
    "base-named": whole("""
        class Base(nn.Module):
            def step(self, x):
                self.last = x  # <- MG103 warning self.last
                return x

        class Net(Base):
            def step(self, x):
                return x

            def forward(self, x):
                return Base.step(self, x)
    """),
    "property": in_net("""
        @property
        def rate(self):
            self.n += 1  # <- MG104 error self.n
            return self.n

        def forward(self, x):
            return x / self.rate
    """),
    "setter": in_net("""
        @property
        def rate(self):
            return self.n

        @rate.setter
        def rate(self, value):
            self.n = value  # <- MG104 warning self.n

        def forward(self, x):
            self.rate = 3
            return x
    """),
    "setter-by-setattr": in_net("""
        @property
        def rate(self):
            return self.n

        @rate.setter
        def rate(self, value):
            self.n = value  # <- MG104 warning self.n

        def forward(self, x):
            setattr(self, "rate", 3)
            return x
    """),
    "setter-by-augmented-assignment": in_net("""
        @property
        def rate(self):
            return self.n

        @rate.setter
        def rate(self, value):
            self.n = value  # <- MG104 error self.n

        def forward(self, x):
            self.rate += 1
            return x / self.rate
    """),
    "property-called": in_net("""
        def read(self):
            self.n += 1  # <- MG104 error self.n
            return self.n

        rate = property(read)

        def forward(self, x):
            return x / self.rate
    """),
    "descriptor": in_net(
        """
        level = Logged()

        def forward(self, x):
            self.level = x
            return x
        """,
        before="""
        class Logged:
            def __set__(self, instance, value):
                instance.anchor = value  # <- MG103 warning self.anchor
        """,
    ),
    "static-method": in_net("""
        @staticmethod
        def bump(net):
            net.n += 1  # <- MG104 error self.n

        def forward(self, x):
            self.bump(self)
            return x / self.n
    """),
    "class-method": in_net("""
        count = 0

        @classmethod
        def bump(cls):
            cls.count += 1  # <- MG111 error Net.count

        def forward(self, x):
            self.bump()
            return x / self.count
    """),
    "called-by-the-class": in_net("""
        def forward(self, x):
            return Net.step(self, x)

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "bound-method-kept": in_net("""
        def forward(self, x):
            step = self.step
            return step(x)

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "bound-method-by-getattr": in_net("""
        def forward(self, x):
            return getattr(self, "step")(x)

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "bound-method-chosen": in_net("""
        def forward(self, x):
            return (self.step if x.ndim > 2 else self.proj)(x)

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "bound-method-in-a-dict": in_net("""
        def forward(self, x, kind="step"):
            return {"step": self.step, "proj": self.proj}[kind](x)

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "partial": in_net("""
        def forward(self, x):
            return functools.partial(self.step, scale=2)(x)

        def step(self, x, scale):
            self.mean = x * scale  # <- MG101 error self.mean
            return x
    """),
    "map": in_net("""
        def forward(self, x):
            return list(map(self.step, x.unbind(0)))

        def step(self, x):
            self.history.append(x)  # <- MG105 warning self.history
            return x
    """),
    "checkpoint": in_net(
        """
        def forward(self, x):
            return checkpoint(self.step, x, use_reentrant=False)

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
        """,
        before="from torch.utils.checkpoint import checkpoint",
    ),
    "call-method": in_net("""
        def __call__(self, x):
            self.n += 1  # <- MG104 warning self.n
            return super().__call__(x)

        def forward(self, x):
            return x
    """),
    "item-method": in_net("""
        def __getitem__(self, index):
            self.n = index  # <- MG104 warning self.n
            return self.layers[index]

        def forward(self, x):
            return self[0](x)
    """),
    "decorator": in_net(
        """
        @counted
        def forward(self, x):
            return x / self.n
        """,
        before="""
        def counted(forward):
            @functools.wraps(forward)
            def wrapper(self, *args, **kwargs):
                self.n += 1  # <- MG104 error self.n
                return forward(self, *args, **kwargs)

            return wrapper
        """,
    ),
    "decorator-factory": in_net(
        """
        @counted(by=2)
        def forward(self, x):
            return x / self.n
        """,
        before="""
        def counted(by):
            def decorator(forward):
                def wrapper(net, x):
                    net.n += by  # <- MG104 error self.n
                    return forward(net, x)

                return wrapper

            return decorator
        """,
    ),
    "decorator-class": in_net(
        """
        @Counted
        def forward(self, x):
            return x
        """,
        before="""
        class Counted:
            def __init__(self, forward):
                self.forward = forward
                self.calls = 0

            def __get__(self, instance, owner):
                return functools.partial(self, instance)

            def __call__(self, net, x):
                self.calls += 1  # <- MG112 warning self.calls
                return self.forward(net, x)
        """,
    ),
    "decorated-helper": in_net(
        """
        def forward(self, x):
            return self.step(x)

        @recorded
        def step(self, x):
            return x
        """,
        before="""
        def recorded(method):
            def wrapper(self, x):
                self.history.append(x)  # <- MG105 warning self.history
                return method(self, x)

            return wrapper
        """,
    ),
    "behind-no-grad": in_net("""
        @torch.no_grad()
        def forward(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "nested-function": in_net("""
        def forward(self, x):
            def update(value):
                self.mean = value  # <- MG101 error self.mean

            update(x)
            return x
    """),
    "nested-function-handed-on": in_net(
        """
        def forward(self, x):
            def update(value):
                self.mean = value  # <- MG101 error self.mean

            apply(update, x)
            return x
        """,
        before="""
        def apply(function, *args):
            return function(*args)
        """,
    ),
    "nested-function-with-a-default": in_net("""
        def forward(self, x):
            def update(value, net=self):
                net.mean = value  # <- MG101 error self.mean

            update(x)
            return x
    """),
    "lambda": in_net("""
        def forward(self, x):
            update = lambda value: setattr(self, "mean", value)  # <- MG101 error self.mean
            update(x)
            return x
    """),
    "comprehension": in_net("""
        def forward(self, x):
            return [self.step(row) for row in x]

        def step(self, x):
            self.history.append(x)  # <- MG105 warning self.history
            return x
    """),
    "comprehension-that-writes": in_net("""
        def forward(self, x):
            [self.history.append(row) for row in x]  # <- MG105 warning self.history
            return x
    """),
    "generator": in_net("""
        def steps(self, x):
            for layer in self.layers:
                self.history.append(x)  # <- MG105 warning self.history
                yield layer(x)

        def forward(self, x):
            return sum(self.steps(x))
    """),
    "generator-expression": in_net("""
        def forward(self, x):
            return sum(self.step(row) for row in x)

        def step(self, x):
            self.mean = x  # <- MG101 error self.mean
            return x
    """),
    "helper-function": in_net(
        """
        def forward(self, x):
            update(self, x)
            return x
        """,
        before="""
        def update(net, value):
            net.mean = value  # <- MG101 error self.mean
        """,
    ),
    "helper-function-by-keyword": in_net(
        """
        def forward(self, x):
            update(value=x, net=self)
            return x
        """,
        before="""
        def update(net, value):
            net.mean = value  # <- MG101 error self.mean
        """,
    ),
    "helper-function-with-star": in_net(
        """
        def forward(self, *args):
            return update(self, *args)
        """,
        before="""
        def update(net, *rest):
            net.mean = rest[0]  # <- MG101 error self.mean
            return rest[0]
        """,
    ),
    "helper-function-that-takes-all": in_net(
        """
        def forward(self, x):
            return update(self, x)
        """,
        before="""
        def update(*args, **kwargs):
            args[0].mean = args[1]  # <- MG101 error self.mean
            return args[1]
        """,
    ),
    "helper-function-that-hands-back": in_net(
        """
        def forward(self, x):
            same(self).mean = x  # <- MG101 error self.mean
            return x
        """,
        before="""
        def same(net):
            return net
        """,
    ),
    "helper-function-with-a-child": in_net(
        """
        def forward(self, x):
            bump(self.layers[0])
            return x
        """,
        before="""
        def bump(layer):
            layer.n += 1  # <- MG104 warning self.layers[*].n
        """,
    ),
    "helper-function-with-a-container": in_net(
        """
        def forward(self, x):
            keep(self.history, x)
            return x
        """,
        before="""
        def keep(items, value):
            items.append(value)  # <- MG105 warning self.history
        """,
    ),
    "helper-function-that-makes-a-function": in_net(
        """
        def forward(self, x):
            updater(self)(x)
            return x
        """,
        before="""
        def updater(net):
            def update(value):
                net.mean = value  # <- MG101 error self.mean

            return update
        """,
    ),
    "function-as-attribute": in_net(
        """
        def forward(self, x):
            self.update(self, x)
            return x
        """,
        init="self.update = update",
        before="""
        def update(net, value):
            net.mean = value  # <- MG101 error self.mean
        """,
    ),
    "function-as-method": in_net(
        """
        step = update

        def forward(self, x):
            return self.step(x)
        """,
        before="""
        def update(self, value):
            self.mean = value  # <- MG101 error self.mean
            return value
        """,
    ),
}

ALIASES = {
    "name": in_net("""
        def forward(self, x):
            net = self
            net.mean = x  # <- MG101 error self.mean
            return x
    """),
    "first-parameter-of-another-name": in_net("""
        def forward(this, x):
            this.mean = x  # <- MG101 error self.mean
            return x
    """),
    "tuple": in_net("""
        def forward(self, x):
            net, y = self, x
            net.mean = y  # <- MG101 error self.mean
            return x
    """),
    "tuple-in-a-tuple": in_net("""
        def forward(self, x):
            (y, [net, z]) = (x, [self, x])
            net.mean = y  # <- MG101 error self.mean
            return x
    """),
    "starred": in_net("""
        def forward(self, x):
            y, *rest = x, self
            rest[0].mean = y  # <- MG101 error self.mean
            return x
    """),
    "chain": in_net("""
        def forward(self, x):
            first = second = self
            second.mean = x  # <- MG101 error self.mean
            return x
    """),
    "walrus": in_net("""
        def forward(self, x):
            if (net := self) is not None:
                net.mean = x  # <- MG101 error self.mean
            return x
    """),
    "with": in_net("""
        def forward(self, x):
            with contextlib.nullcontext(self) as net:
                net.mean = x  # <- MG101 error self.mean
            return x
    """),
    "context-manager-of-the-project": in_net(
        """
        def forward(self, x):
            with Entered(self) as net:
                net.mean = x  # <- MG101 error self.mean
            return x
        """,
        before="""
        class Entered:
            def __init__(self, net):
                self.net = net

            def __enter__(self):
                return self.net

            def __exit__(self, *exc):
                return False
        """,
    ),
    "generator-context-manager": in_net("""
        @contextlib.contextmanager
        def counted(self):
            self.n += 1  # <- MG104 warning self.n
            yield self

        def forward(self, x):
            with self.counted() as net:
                net.mean = x  # <- MG101 error self.mean
            return x
    """),
    "for": in_net("""
        def forward(self, x):
            for net in (self,):
                net.mean = x  # <- MG101 error self.mean
            return x
    """),
    "conditional": in_net("""
        def forward(self, x, other=None):
            net = self if other is None else other
            net.mean = x  # <- MG101 error self.mean
            return x
    """),
    "branches": in_net("""
        def forward(self, x):
            if x.ndim > 2:
                layer = self.layers[0]
            else:
                layer = self.layers[1]
            layer.n += 1  # <- MG104 warning self.layers[*].n
            return x
    """),
    "or": in_net("""
        def forward(self, x, other=None):
            net = other or self
            net.mean = x  # <- MG101 error self.mean
            return x
    """),
    "in-a-dict": in_net("""
        def forward(self, x):
            parts = {"net": self}
            parts["net"].mean = x  # <- MG101 error self.mean
            return x
    """),
    "in-a-list": in_net("""
        def forward(self, x):
            [self][0].mean = x  # <- MG101 error self.mean
            return x
    """),
    "by-getattr": in_net("""
        def forward(self, x):
            getattr(self, "history").append(x)  # <- MG105 warning self.history
            return x
    """),
    "container": in_net("""
        def forward(self, x):
            kept = self.history
            kept.append(x)  # <- MG105 warning self.history
            return x
    """),
    "container-method": in_net("""
        def forward(self, x):
            keep = self.history.append
            keep(x)  # <- MG105 warning self.history
            return x
    """),
    "tensor": in_net("""
        def forward(self, x):
            mean = self.mean
            mean += x  # <- MG108 note self.mean
            return x
    """),
    "tensor-view": in_net("""
        def forward(self, x):
            self.mean.view(-1)[:1].zero_()  # <- MG108 note self.mean
            return x
    """),
    "local-kept-as-state": in_net("""
        def forward(self, x):
            kept = []
            self.history = kept  # <- MG104 warning self.history
            kept.append(x)  # <- MG105 warning self.history
            return x
    """),
}

LOOPS = {
    "layers": in_net("""
        def forward(self, x):
            for layer in self.layers:
                layer.n += 1  # <- MG104 warning self.layers[*].n
            return x
    """),
    "enumerate": in_net("""
        def forward(self, x):
            for index, layer in enumerate(self.layers):
                layer.n = index  # <- MG104 warning self.layers[*].n
            return x
    """),
    "zip": in_net("""
        def forward(self, x):
            for row, layer in zip(x, self.layers):
                layer.scale = row  # <- MG101 error self.layers[*].scale
            return x
    """),
    "reversed-slice": in_net("""
        def forward(self, x):
            for layer in reversed(self.layers[1:]):
                layer.n += 1  # <- MG104 warning self.layers[*].n
            return x
    """),
    "range": in_net("""
        def forward(self, x):
            for index in range(2):
                self.layers[index].n += 1  # <- MG104 warning self.layers[*].n
            return x
    """),
    "dict-items": in_net(
        """
        def forward(self, x):
            for name, branch in self.branches.items():
                branch.n += 1  # <- MG104 warning self.branches[*].n
            return x
        """,
        init='self.branches = nn.ModuleDict({"one": Layer(width)})',
    ),
    "dict-values": in_net(
        """
        def forward(self, x):
            for slot in self.slots.values():
                slot.append(x)  # <- MG105 warning self.slots
            return x
        """,
        init='self.slots = {"one": []}',
    ),
    "comprehension": in_net("""
        def forward(self, x):
            [setattr(layer, "scale", x) for layer in self.layers]  # <- MG101 error self.layers[*].scale
            return x
    """),
    "named-children": in_net("""
        def forward(self, x):
            for name, child in self.named_children():
                child.train()  # <- MG104 warning self[*]
            return x
    """),
    "parameters": in_net("""
        def forward(self, x):
            for parameter in self.parameters():
                parameter.data = x  # <- MG107 error self[*]
            return x
    """),
    "while": in_net("""
        def forward(self, x):
            index = 0
            while index < 2:
                self.layers[index].n += 1  # <- MG104 warning self.layers[*].n
                index += 1
            return x
    """),
    "list-of-layers": in_net("""
        def forward(self, x):
            layers = [layer for layer in self.layers]
            layers[0].n += 1  # <- MG104 warning self.layers[*].n
            return x
    """),
    "alias-moved-along": in_net(
        """
        def forward(self, x):
            node = self
            while node is not None:
                node.n += 1  # <- MG104 warning self.n
                node = node.next
            return x
        """,
        init="self.next = None",
    ),
}

SPELLINGS = {
    "setattr": in_net("""
        def forward(self, x):
            setattr(self, "mean", x)  # <- MG101 error self.mean
            return x
    """),
    "setattr-of-a-constant": in_net(
        """
        def forward(self, x):
            setattr(self, NAME, x)  # <- MG101 error self.mean
            return x
        """,
        before='NAME = "mean"',
    ),
    "object-setattr": in_net("""
        def forward(self, x):
            object.__setattr__(self, "mean", x)  # <- MG101 error self.mean
            return x
    """),
    "super-setattr": in_net("""
        def forward(self, x):
            super().__setattr__("mean", x)  # <- MG101 error self.mean
            return x
    """),
    "own-setattr": in_net("""
        def forward(self, x):
            self.__setattr__("mean", x)  # <- MG101 error self.mean
            return x
    """),
    "dict": in_net("""
        def forward(self, x):
            self.__dict__["anchor"] = x  # <- MG103 warning self.anchor
            return x
    """),
    "dict-update": in_net("""
        def forward(self, x):
            self.__dict__.update(anchor=x)  # <- MG103 warning self.anchor
            return x
    """),
    "vars": in_net("""
        def forward(self, x):
            vars(self)["anchor"] = x  # <- MG103 warning self.anchor
            return x
    """),
    "buffers-dict": in_net("""
        def forward(self, x):
            self._buffers["mean"] = x  # <- MG101 error self.mean
            return x
    """),
    "parameters-dict": in_net("""
        def forward(self, x):
            self._parameters["weight"] = nn.Parameter(x)  # <- MG102 error self.weight
            return x
    """),
    "target-of-for": in_net("""
        def forward(self, x):
            for self.anchor in x:  # <- MG103 warning self.anchor
                pass
            return x
    """),
    "target-of-with": in_net("""
        def forward(self, x):
            with contextlib.nullcontext(x) as self.anchor:  # <- MG103 warning self.anchor
                return x
    """),
    "target-of-a-comprehension": in_net("""
        def forward(self, x):
            [0 for self.anchor in x]  # <- MG103 warning self.anchor
            return x
    """),
    "target-in-a-tuple": in_net("""
        def forward(self, x):
            y, self.anchor = x, x + 1  # <- MG103 warning self.anchor
            return y
    """),
    "target-starred": in_net("""
        def forward(self, x):
            y, *self.history = x.unbind(0)  # <- MG103 warning self.history
            return y
    """),
    "target-in-a-chain": in_net("""
        def forward(self, x):
            y = self.anchor = x + 1  # <- MG103 warning self.anchor
            return y
    """),
    "annotated": in_net("""
        def forward(self, x):
            self.anchor: torch.Tensor = x  # <- MG103 warning self.anchor
            return x
    """),
    "two-on-one-line": in_net("""
        def forward(self, x):
            self.mean, self.n = x, 1  # <- MG101 error self.mean; MG104 warning self.n
            return x
    """),
    "delete": in_net("""
        def forward(self, x):
            del self.anchor  # <- MG110 error self.anchor
            return x
    """),
    "delattr": in_net("""
        def forward(self, x):
            delattr(self, "anchor")  # <- MG110 error self.anchor
            return x
    """),
    "register-buffer": in_net("""
        def forward(self, x):
            self.register_buffer("extra", x)  # <- MG106 error self.extra
            return x
    """),
    "register-parameter": in_net("""
        def forward(self, x):
            self.register_parameter("extra", nn.Parameter(x))  # <- MG106 error self.extra
            return x
    """),
    "add-module": in_net("""
        def forward(self, x):
            self.add_module("extra", nn.Linear(4, 4))  # <- MG106 error self.extra
            return x
    """),
    "parameter-assigned": in_net("""
        def forward(self, x):
            self.extra = nn.Parameter(x)  # <- MG106 error self.extra
            return x
    """),
    "module-assigned": in_net("""
        def forward(self, x):
            self.proj = nn.Linear(4, 4)  # <- MG106 error self.proj
            return self.proj(x)
    """),
    "module-appended": in_net("""
        def forward(self, x):
            self.layers.append(Layer(4))  # <- MG106 error self.layers
            return x
    """),
    "parameter-rebound": in_net("""
        def forward(self, x):
            self.weight = nn.Parameter(x)  # <- MG102 error self.weight
            return x
    """),
    "data": in_net("""
        def forward(self, x):
            self.weight.data = x  # <- MG107 error self.weight
            return x
    """),
    "data-of-a-child": in_net("""
        def forward(self, x):
            self.proj.weight.data = x  # <- MG107 error self.proj.weight
            return x
    """),
    "set": in_net("""
        def forward(self, x):
            self.mean.set_(x)  # <- MG107 error self.mean
            return x
    """),
    "resize": in_net("""
        def forward(self, x):
            self.mean.resize_(x.shape[0])  # <- MG107 error self.mean
            return x
    """),
    "swap-tensors": in_net("""
        def forward(self, x):
            torch.utils.swap_tensors(self.mean, x)  # <- MG107 error self.mean; MG107 error x
            return x
    """),
    "child-moved": in_net("""
        def forward(self, x):
            self.proj.to(x.device)  # <- MG107 error self.proj
            return self.proj(x)
    """),
    "item": in_net("""
        def forward(self, x):
            self.cache["x"] = x  # <- MG105 warning self.cache
            return x
    """),
    "item-read-back": in_net("""
        def forward(self, x):
            last = self.cache.get("x", x)
            self.cache["x"] = x  # <- MG105 error self.cache
            return x + last
    """),
    "item-augmented": in_net("""
        def forward(self, x):
            self.cache["steps"] += 1  # <- MG105 warning self.cache
            return x
    """),
    "item-deleted": in_net("""
        def forward(self, x):
            del self.cache["x"]  # <- MG105 warning self.cache
            return x
    """),
    "list-augmented": in_net("""
        def forward(self, x):
            self.history += [x]  # <- MG105 warning self.history
            return x
    """),
    "list-slice": in_net("""
        def forward(self, x):
            self.history[:] = [x]  # <- MG105 warning self.history
            return x
    """),
    "list-of-lists": in_net(
        """
        def forward(self, x):
            self.slots[0].append(x)  # <- MG105 warning self.slots
            return x
        """,
        init="self.slots = [[] for _ in range(3)]",
    ),
    "set-union": in_net("""
        def forward(self, x):
            self.seen |= {x.shape}  # <- MG105 warning self.seen
            return x
    """),
    "heap": in_net("""
        def forward(self, x):
            heapq.heappush(self.history, 1)  # <- MG105 warning self.history
            return x
    """),
    "operator-setitem": in_net("""
        def forward(self, x):
            operator.setitem(self.cache, "x", x)  # <- MG105 warning self.cache
            return x
    """),
    "iterator": in_net(
        """
        def forward(self, x):
            return x * next(self.steps)  # <- MG105 error self.steps
        """,
        init="self.steps = iter(range(10))",
        before="import itertools",
    ),
    "in-place-method": in_net("""
        def forward(self, x):
            self.mean.mul_(0.9).add_(x)  # <- MG108 note self.mean
            return x
    """),
    "in-place-item": in_net("""
        def forward(self, x):
            self.mean[:2] = x  # <- MG108 note self.mean
            return x
    """),
    "in-place-augmented": in_net("""
        def forward(self, x):
            self.mean += x  # <- MG108 note self.mean
            return x
    """),
    "in-place-initialiser": in_net("""
        def forward(self, x):
            nn.init.zeros_(self.weight)  # <- MG108 note self.weight
            return x
    """),
    "out-argument": in_net("""
        def forward(self, x):
            torch.add(x, 1, out=self.mean)  # <- MG108 note self.mean
            return x
    """),
    "out-argument-in-a-tuple": in_net("""
        def forward(self, x):
            torch.max(x, 0, out=(self.mean, self.anchor))  # <- MG108 note self.mean; MG108 note self.anchor
            return x
    """),
    "batch-norm": in_net("""
        def forward(self, x):
            return F.batch_norm(x, self.mean, None, training=True)  # <- MG108 note self.mean
    """),
    "instance-norm-by-keyword": in_net("""
        def forward(self, x):
            return F.instance_norm(x, running_mean=self.mean)  # <- MG108 note self.mean
    """),
    "number-rebound": in_net("""
        def forward(self, x):
            self.n = self.n + 1  # <- MG104 error self.n
            return x / self.n
    """),
    "flag": in_net("""
        def forward(self, x):
            if self.ready:
                x = x + 1
            self.ready = True  # <- MG104 error self.ready
            return x
    """),
    "tensor-item-of-unknown-name": in_net("""
        def forward(self, x, name):
            setattr(self, name, x)  # <- MG103 warning self.*
            return x
    """),
} | {
    f"{kind}-{call.partition('(')[0]}": in_net(f"""
        def forward(self, x):
            self.{kind}.{call}  # <- MG105 warning self.{kind}
            return x
    """)
    for kind, calls in {
        "cache": ["update(x=x)", "setdefault('x', x)", "pop('x')", "popitem()", "clear()"],
        "history": ["append(x)", "extend([x])", "insert(0, x)", "pop()", "remove(x)", "clear()", "sort()", "reverse()"],
        "seen": ["add(1)", "discard(1)", "update([1])", "difference_update([1])"],
        "window": ["appendleft(x)", "popleft()", "rotate(1)", "extendleft([x])"],
    }.items()
    for call in calls
}

SHARED = {
    "class-attribute": in_net("""
        count = 0

        def forward(self, x):
            Net.count += 1  # <- MG111 error Net.count
            return x / Net.count
    """),
    "class-attribute-by-type": in_net("""
        count = 0

        def forward(self, x):
            type(self).count += 1  # <- MG111 warning Net.count
            return x
    """),
    "class-attribute-by-class": in_net("""
        count = 0

        def forward(self, x):
            self.__class__.count = self.count + 1  # <- MG111 error Net.count
            return x / self.count
    """),
    "class-level-container": in_net("""
        shared = []

        def forward(self, x):
            self.shared.append(x)  # <- MG105 error self.shared
            return sum(self.shared)
    """),
    "global": in_net(
        """
        def forward(self, x):
            global STEPS
            STEPS += 1  # <- MG111 error STEPS
            return x / STEPS
        """,
        before="STEPS = 0",
    ),
    "module-level-container": in_net(
        """
        def forward(self, x):
            SEEN.append(x)  # <- MG111 warning SEEN
            return x
        """,
        before="SEEN = []",
    ),
    "module-level-object": in_net(
        """
        def forward(self, x):
            STATE.step += 1  # <- MG111 error STATE.step
            return x / STATE.step
        """,
        before="""
        class State:
            step = 0

        STATE = State()
        """,
    ),
    "nonlocal": in_net(
        """
        @alternating
        def forward(self, x):
            return x
        """,
        before="""
        def alternating(forward):
            calls = 0

            def wrapper(self, x):
                nonlocal calls
                calls += 1  # <- MG111 error calls
                return forward(self, x) if calls % 2 else x

            return wrapper
        """,
    ),
    "default-argument": in_net("""
        def forward(self, x):
            return self.keep(x)

        def keep(self, x, kept=[]):
            kept.append(x)  # <- MG111 error keep.__defaults__
            return sum(kept)
    """),
    "attribute-of-a-function": in_net(
        """
        def forward(self, x):
            count.calls += 1  # <- MG111 error count.calls
            return x / count.calls
        """,
        before="""
        def count():
            pass

        count.calls = 0
        """,
    ),
    "memoised-function": in_net(
        """
        def forward(self, x):
            return x + positions(x.shape[0])  # <- MG114 error positions
        """,
        before="""
        @functools.lru_cache(maxsize=8)
        def positions(length):
            return torch.arange(length)
        """,
    ),
    "memoised-method": in_net("""
        @functools.cache
        def positions(self, length):
            return torch.arange(length)

        def forward(self, x):
            return x + self.positions(x.shape[0])  # <- MG114 error self.positions
    """),
    "memoised-by-a-call": in_net(
        """
        def forward(self, x):
            return x + positions(x.shape[0])  # <- MG114 error positions
        """,
        before="""
        def make(length):
            return torch.arange(length)

        positions = functools.lru_cache(make)
        """,
    ),
    "cached-property": in_net("""
        @functools.cached_property
        def table(self):
            return torch.arange(8)

        def forward(self, x):
            return x + self.table  # <- MG109 warning self.table
    """),
    "defaultdict-read": in_net(
        """
        def forward(self, x):
            return x * len(self.slots[x.shape[0]])  # <- MG105 error self.slots
        """,
        init="self.slots = collections.defaultdict(list)",
    ),
}

HOOKS = {
    "pre-hook": in_net(
        """
        def forward(self, x):
            return x / self.n
        """,
        init="self.register_forward_pre_hook(count)",
        before="""
        def count(module, args):
            module.n += 1  # <- MG104 error self.n
        """,
    ),
    "hook": in_net(
        """
        def keep(self, module, args, output):
            self.history.append(output)  # <- MG105 warning self.history

        def forward(self, x):
            return x
        """,
        init="self.register_forward_hook(self.keep)",
    ),
    "hook-on-a-child": in_net(
        """
        def keep(self, module, args, output):
            self.anchor = output  # <- MG103 warning self.anchor

        def forward(self, x):
            return self.proj(x)
        """,
        init="self.proj.register_forward_hook(self.keep)",
    ),
    "hook-read-in-forward": in_net(
        """
        def keep(self, module, args, output):
            self.anchor = output  # <- MG103 error self.anchor

        def forward(self, x):
            return self.proj(x) + self.anchor
        """,
        init="self.register_forward_hook(self.keep)",
    ),
    "hook-lambda": in_net(
        """
        def forward(self, x):
            return x
        """,
        init="self.register_forward_hook(lambda module, args, output: self.history.append(output))"
        "  # <- MG105 warning self.history",
    ),
    "registered-in-forward": in_net("""
        def forward(self, x):
            self.proj.register_forward_hook(print)  # <- MG106 warning self.proj
            return self.proj(x)
    """),
    "tensor-hook-of-a-local": in_net("""
        def forward(self, x):
            y = self.proj(x)
            y.register_hook(print)
            return y
    """),
}

OTHERS = {
    "child": in_net("""
        def forward(self, x):
            self.proj.scale = x  # <- MG103 warning self.proj.scale
            return x
    """),
    "method-of-a-child": whole("""
        class Codebook(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("codes", torch.zeros(4))

            def update_ema(self, x):
                self.codes = x  # <- MG101 error self.codes

            def forward(self, x):
                return x

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.codebook = Codebook()

            def forward(self, x):
                self.codebook.update_ema(x)
                return x
    """),
    "method-of-a-child-in-a-list": whole("""
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.steps = 0

            def step(self, x):
                self.steps += 1  # <- MG104 error self.steps
                return x / self.steps

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.ModuleList([Block() for _ in range(2)])

            def forward(self, x):
                for block in self.blocks:
                    x = block.step(x)
                return x
    """),
    "entry-point-of-a-child": whole("""
        class Child(nn.Module):
            def forward(self, x):
                self.last = x  # <- MG103 warning self.last
                return x

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.child = Child()

            def forward(self, x):
                return self.child(x)
    """),
    "child-by-annotation": whole("""
        class Codebook(nn.Module):
            def update_ema(self, x):
                self.codes = x  # <- MG103 warning self.codes

        class Net(nn.Module):
            def __init__(self, codebook: Codebook):
                super().__init__()
                self.codebook = codebook

            def forward(self, x):
                self.codebook.update_ema(x)
                return x
    """),
    "child-from-a-factory": whole("""
        class Codebook(nn.Module):
            def update_ema(self, x):
                self.codes = x  # <- MG103 warning self.codes

        def build():
            return Codebook()

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.codebook = build()

            def forward(self, x):
                self.codebook.update_ema(x)
                return x
    """),
    "child-by-a-method": whole("""
        class Codebook(nn.Module):
            def update_ema(self, x):
                self.codes = x  # <- MG103 warning self.codes

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.setup()

            def setup(self):
                self.codebook = Codebook()

            def forward(self, x):
                self.codebook.update_ema(x)
                return x
    """),
    "plain-object": in_net(
        """
        def forward(self, x):
            return x / self.meter.tick()
        """,
        init="self.meter = Meter()",
        before="""
        class Meter:
            def __init__(self):
                self.calls = 0

            def tick(self):
                self.calls += 1  # <- MG112 error self.calls
                return self.calls
        """,
    ),
    "plain-object-written-outside": in_net(
        """
        def forward(self, x):
            self.meter.last = x  # <- MG112 warning self.meter.last
            return x
        """,
        init="self.meter = Meter()",
        before="""
        class Meter:
            last = None
        """,
    ),
    "plain-object-with-special-methods": in_net(
        """
        def forward(self, x):
            self.ring["x"] = x
            return x
        """,
        init="self.ring = Ring()",
        before="""
        class Ring:
            def __init__(self):
                self.slots = []

            def __setitem__(self, key, value):
                self.slots.append(value)  # <- MG112 warning self.slots
        """,
    ),
    "plain-object-called": in_net(
        """
        def forward(self, x):
            return self.meter(x)
        """,
        init="self.meter = Meter()",
        before="""
        class Meter:
            def __init__(self):
                self.calls = 0

            def __call__(self, x):
                self.calls += 1  # <- MG112 error self.calls
                return x / self.calls
        """,
    ),
    "object-handed-in": in_net(
        """
        def forward(self, x, meta: Meta):
            meta.steps += 1  # <- MG112 error meta.steps
            return x / meta.steps
        """,
        before="""
        class Meta:
            steps = 0
        """,
    ),
    "method-of-an-object-handed-in": in_net(
        """
        def forward(self, x, meta: Meta):
            meta.advance()
            return x
        """,
        before="""
        class Meta:
            steps = 0

            def advance(self):
                self.steps += 1  # <- MG112 warning self.steps
        """,
    ),
    "configuration": in_net("""
        def forward(self, x):
            if self.config.problem_type is None:
                self.config.problem_type = "regression"  # <- MG112 note self.config.problem_type
            return x
    """),
    "configuration-from-inputs": in_net("""
        def forward(self, x):
            self.config.length = x.shape[0]  # <- MG112 warning self.config.length
            return x
    """),
    "mode": in_net("""
        def forward(self, x):
            self.proj.eval()  # <- MG104 warning self.proj
            return self.proj(x)
    """),
    "gradients": in_net("""
        def forward(self, x):
            self.proj.requires_grad_(False)  # <- MG104 warning self.proj
            return self.proj(x)
    """),
    "training-flag": in_net("""
        def forward(self, x):
            self.training = False  # <- MG104 warning self.training
            return x
    """),
    "method-replaced": in_net("""
        def forward(self, x):
            self.proj.forward = self.step  # <- MG106 warning self.proj.forward
            return x

        def step(self, x):
            return x
    """),
    "unknown-mutator": in_net(
        """
        def forward(self, x):
            self.store.update(x)  # <- MG113 warning self.store
            return x
        """,
        init="self.store = config",
    ),
}

ASSIGNED = {
    "a-function-of-the-file": whole("""
        def step(self, x):
            self.count += 1  # <- MG104 error self.count
            return x * self.count

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            forward = step
    """),
    "a-method-compiled": whole("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def _step(self, x):
                self.count += 1  # <- MG104 error self.count
                return x * self.count

            forward = torch.compile(_step)
    """),
    "a-lambda": whole("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.seen = []

            forward = lambda self, x: (self.seen.append(x), len(self.seen), x)  # <- MG105 error self.seen
    """),
    "below-the-class": whole("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

        def step(self, x):
            self.count += 1  # <- MG104 error self.count
            return x * self.count

        Net.forward = step
    """),
    "what-a-factory-makes": whole("""
        def make(scale):
            def run(self, x):
                self.total = self.total + x  # <- MG101 error self.total
                return self.total * scale
            return run

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("total", torch.zeros(1))

        Net.forward = make(3)
    """),
    "in-a-base": whole("""
        def step(self, x):
            self.count += 1  # <- MG104 error self.count
            return x * self.count

        class Base(nn.Module):
            forward = step

        class Net(Base):
            def __init__(self):
                super().__init__()
                self.count = 0
    """),
    "nothing-yet": whole("""
        class Net(nn.Module):
            forward = None

            def step(self, x):
                self.count = x
                return x
    """),
}

CLASSES = {
    "a-generic-class-with-its-argument": whole("""
        T = typing.TypeVar("T")

        class Child(nn.Module, typing.Generic[T]):
            def __init__(self):
                super().__init__()
                self.count = 0

            def step(self, x):
                self.count += 1  # <- MG104 error self.count
                return x * self.count

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.child = Child[int]()

            def forward(self, x):
                return self.child.step(x)
    """),
    "a-class-inside-that-closes-over-the-module": whole("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def forward(self, x):
                class Counter:
                    def step(inner, y):
                        self.count += 1  # <- MG104 error self.count
                        return y * self.count

                return Counter().step(x)
    """),
    "a-base-by-its-third-name": whole("""
        First = Second = nn.Module
        Third = Second

        class Net(Third):
            def __init__(self):
                super().__init__()
                self.count = 0

            def forward(self, x):
                self.count += 1  # <- MG104 error self.count
                return x * self.count
    """),
    "several-deleted-at-once": whole("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = 1

            def forward(self, x):
                del (x, [self.a])  # <- MG110 error self.a
                return 1
    """),
}


def _keeping(kept: str) -> str:
    return whole(f"""
        class Net(nn.Module):
            def __init__(self, width=1):
                super().__init__()
                self.count = 0
                {kept}

            def _choose(self):
                return self._inner

            def _inner(self, x):
                self.count += 1  # <- MG104 error self.count
                return x * self.count

            def forward(self, x):
                return self.fn(x)
    """)


KEPT = {
    "a-method": _keeping("self.fn = self._inner"),
    "a-method-compiled": _keeping("self.fn = torch.compile(self._inner)"),
    "a-partial": _keeping("self.fn = functools.partial(self._inner)"),
    "a-lambda": _keeping("self.fn = lambda x: self._inner(x)"),
    "one-of-two": _keeping("self.fn = self._inner if width else None"),
    "one-of-a-dict": _keeping('self.fn = {"a": self._inner}["a"]'),
    "what-a-method-chooses": _keeping("self.fn = self._choose()"),
    "a-closure": whole("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                count = 0

                def bump(x):
                    nonlocal count
                    count += 1  # <- MG111 error count
                    return x * count

                self.fn = bump

            def forward(self, x):
                return self.fn(x)
    """),
    "the-entry-point-itself": whole("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0
                self.forward = torch.compile(self._fast)

            def _fast(self, x):
                self.count += 1  # <- MG104 error self.count
                return x * self.count
    """),
    "the-entry-point-as-a-closure": whole("""
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

                def run(x):
                    self.count += 1  # <- MG104 error self.count
                    return x * self.count

                self.forward = run
    """),
}
