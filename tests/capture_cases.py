"""What no capture can hold, spelled in every way, and what only looks like it: methods of `Net` (see `marked`)."""

from __future__ import annotations

from marked import in_net

READS = {
    "item": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.sum().item()  # <- MG201 warning
            return x, y
    """),
    "tolist": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.tolist()  # <- MG201 warning
            return x, y
    """),
    "cpu": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.cpu()  # <- MG201 warning
            return x, y
    """),
    "to-cpu": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.to("cpu")  # <- MG201 warning
            return x, y
    """),
    "to-cpu-by-name": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.to(device="cpu")  # <- MG201 warning
            return x, y
    """),
    "numpy": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.detach().numpy()  # <- MG201 warning
            return x, y
    """),
    "int": in_net("""
        def forward(self, x: torch.Tensor):
            y = int(x.max())  # <- MG201 warning
            return x, y
    """),
    "float": in_net("""
        def forward(self, x: torch.Tensor):
            y = float(x.mean())  # <- MG201 warning
            return x, y
    """),
    "bool": in_net("""
        def forward(self, x: torch.Tensor):
            y = bool(x.any())  # <- MG201 warning
            return x, y
    """),
    "range": in_net("""
        def forward(self, x: torch.Tensor):
            y = list(range(x.argmax()))  # <- MG201 warning
            return x, y
    """),
    "equal": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.equal(x, x)  # <- MG201 warning
            return x, y
    """),
    "allclose": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.allclose(x, x)  # <- MG201 warning
            return x, y
    """),
    "method-equal": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.equal(x)  # <- MG201 warning
            return x, y
    """),
    "fstring": in_net("""
        def forward(self, x: torch.Tensor):
            y = f"{x}"  # <- MG201 warning
            return x, y
    """),
    "percent": in_net("""
        def forward(self, x: torch.Tensor):
            y = "%s" % x  # <- MG201 warning
            return x, y
    """),
    "str-format": in_net("""
        def forward(self, x: torch.Tensor):
            y = "{}".format(x)  # <- MG201 warning
            return x, y
    """),
    "str": in_net("""
        def forward(self, x: torch.Tensor):
            y = str(x)  # <- MG201 warning
            return x, y
    """),
    "sqrt": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = math.sqrt(x.sum())  # <- MG201 warning
            return x, y
    """,
        before="""
        import math
        import numpy as np
    """,
    ),
    "builtin-max": in_net("""
        def forward(self, x: torch.Tensor):
            y = max(x.amin(), x.amax())  # <- MG201 warning
            return x, y
    """),
    "any-of": in_net("""
        def forward(self, x: torch.Tensor):
            y = any(x.isnan())  # <- MG201 warning
            return x, y
    """),
    "asarray": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = np.asarray(x)  # <- MG201 warning
            return x, y
    """,
        before="""
        import math
        import numpy as np
    """,
    ),
    "array-of-many": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = np.mean(x)  # <- MG201 warning
            return x, y
    """,
        before="""
        import math
        import numpy as np
    """,
    ),
    "slice-end": in_net("""
        def forward(self, x: torch.Tensor):
            y = self.mean[: x.argmax()]  # <- MG201 warning
            return x, y
    """),
    "list-index": in_net("""
        def forward(self, x: torch.Tensor):
            y = [1, 2, 3][x.argmax()]  # <- MG201 warning
            return x, y
    """),
    "module-index": in_net("""
        def forward(self, x: torch.Tensor):
            y = self.layers[x.argmax()](x)  # <- MG201 warning
            return x, y
    """),
    "sizes": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.zeros(x.argmax(), device=x.device)  # <- MG201 warning
            return x, y
    """),
    "arange": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.arange(x.max(), device=x.device)  # <- MG201 warning
            return x, y
    """),
    "tensor-of-tensors": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.tensor([x.min(), x.max()])  # <- MG201 warning
            return x, y
    """),
    "parameter": in_net("""
        def forward(self, x: torch.Tensor):
            y = float(self.weight)  # <- MG201 warning
            return x, y
    """),
    "buffer": in_net("""
        def forward(self, x: torch.Tensor):
            y = self.mean.tolist()  # <- MG201 warning
            return x, y
    """),
    "is-nonzero": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.is_nonzero(x)  # <- MG201 warning
            return x, y
    """),
    "comprehension": in_net("""
        def forward(self, x, shapes):
            parts = [h.item() * w.item() for h, w in shapes]  # <- MG201 warning
            return x, parts, shapes[:, 0]
    """),
    "unannotated-argument": in_net("""
        def forward(self, x):
            y = float(x)  # <- MG201 warning
            return x.unsqueeze(0) + y
    """),
    "result-of-a-child": in_net("""
        def forward(self, x: torch.Tensor):
            y = self.proj(x)
            return y, y.item()  # <- MG201 warning
    """),
    "helper": in_net(
        """
        def forward(self, x: torch.Tensor):
            return helper(x)
    """,
        before="""
        def helper(y):
            return y.max().item()  # <- MG201 warning
    """,
    ),
    "isinstance": in_net("""
        def forward(self, x):
            if isinstance(x, torch.Tensor):
                x = x.item()  # <- MG201 warning
            return x
    """),
    "synchronize": in_net("""
        def forward(self, x: torch.Tensor):
            torch.cuda.synchronize()  # <- MG201 warning
            return x
    """),
    "stream-synchronize": in_net("""
        def forward(self, x: torch.Tensor):
            torch.cuda.current_stream().synchronize()  # <- MG201 warning
            return x
    """),
}

BRANCHES = {
    "any": in_net("""
        def forward(self, x: torch.Tensor):
            if (x > 0).any():  # <- MG202 warning
                return x * 2
            return x
    """),
    "tensor": in_net("""
        def forward(self, x: torch.Tensor):
            if x.sum():  # <- MG202 warning
                return x * 2
            return x
    """),
    "compare": in_net("""
        def forward(self, x: torch.Tensor):
            if x.max() > 3:  # <- MG202 warning
                return x * 2
            return x
    """),
    "not": in_net("""
        def forward(self, x: torch.Tensor):
            if not x.all():  # <- MG202 warning
                return x * 2
            return x
    """),
    "and": in_net("""
        def forward(self, x: torch.Tensor):
            if self.ready and x.any():  # <- MG202 warning
                return x * 2
            return x
    """),
    "or": in_net("""
        def forward(self, x: torch.Tensor):
            if x.any() or self.ready:  # <- MG202 warning
                return x * 2
            return x
    """),
    "nested": in_net("""
        def forward(self, x: torch.Tensor):
            if self.ready or (x.any() and self.n):  # <- MG202 warning
                return x * 2
            return x
    """),
    "in": in_net("""
        def forward(self, x: torch.Tensor):
            if 0.0 in x:  # <- MG202 warning
                return x * 2
            return x
    """),
    "buffer": in_net("""
        def forward(self, x: torch.Tensor):
            if self.mean.sum() == 0:  # <- MG202 warning
                return x * 2
            return x
    """),
    "float": in_net("""
        def forward(self, x: torch.Tensor):
            if float(x.max()) > 3:  # <- MG201 warning
                return x * 2
            return x
    """),
    "item-on-the-same-line": in_net("""
        def forward(self, x: torch.Tensor):
            if x.max().item() > 3:  # <- MG201 warning
                return x * 2
            return x
    """),
    "while": in_net("""
        def forward(self, x: torch.Tensor):
            while x.norm() > 1:  # <- MG202 warning
                x = x / 2
            return x
    """),
    "assert": in_net("""
        def forward(self, x: torch.Tensor):
            assert x.isfinite().all()  # <- MG202 warning
            return x
    """),
    "raise": in_net("""
        def forward(self, x: torch.Tensor):
            if x.isnan().any():  # <- MG202 warning
                raise ValueError('not a number')
            return x
    """),
    "conditional-expression": in_net("""
        def forward(self, x: torch.Tensor):
            return 1.0 if x.mean() > 0 else x  # <- MG202 warning
    """),
    "filter": in_net("""
        def forward(self, x: torch.Tensor):
            return [row for row in x.unbind() if row.any()]  # <- MG202 warning
    """),
    "value-of-or": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.sum() or 1  # <- MG202 warning
            return y
    """),
    "number-read-before": in_net("""
        def forward(self, x: torch.Tensor):
            n = int(x.max()) + 1  # <- MG201 warning
            if n > self.n:  # <- MG202 warning
                x = x[:n]
            return x
    """),
    "chained": in_net("""
        def forward(self, x: torch.Tensor):
            if 0 < x.max() < 3:  # <- MG202 warning
                return x * 2
            return x
    """),
    "random": in_net("""
        def forward(self, x: torch.Tensor):
            if torch.rand(()) < 0.5:  # <- MG202 warning
                return x * 2
            return x
    """),
}

SIZES_FROM_DATA = {
    "nonzero": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.nonzero(x)  # <- MG203 warning
            return y
    """),
    "nonzero-method": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.nonzero(as_tuple=True)  # <- MG203 warning
            return y
    """),
    "argwhere": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.argwhere(x)  # <- MG203 warning
            return y
    """),
    "where": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.where(x > 0)  # <- MG203 warning
            return y
    """),
    "masked-select": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.masked_select(x, x > 0)  # <- MG203 warning
            return y
    """),
    "masked-select-method": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.masked_select(x > 0)  # <- MG203 warning
            return y
    """),
    "unique": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.unique(x)  # <- MG203 warning
            return y
    """),
    "unique-method": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.unique()  # <- MG203 warning
            return y
    """),
    "unique-consecutive": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.unique_consecutive(x)  # <- MG203 warning
            return y
    """),
    "bincount": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.bincount(x)  # <- MG203 warning
            return y
    """),
    "repeat-interleave": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.repeat_interleave(x, self.mean)  # <- MG203 warning
            return y
    """),
    "one-hot": in_net("""
        def forward(self, x: torch.Tensor):
            y = F.one_hot(x)  # <- MG203 warning
            return y
    """),
    "comparison": in_net("""
        def forward(self, x: torch.Tensor):
            y = x[x > 0]  # <- MG203 warning
            return y
    """),
    "negated": in_net("""
        def forward(self, x: torch.Tensor):
            y = x[~(x > 0)]  # <- MG203 warning
            return y
    """),
    "combined": in_net("""
        def forward(self, x: torch.Tensor):
            y = x[(x > 0) & (x < 1)]  # <- MG203 warning
            return y
    """),
    "second": in_net("""
        def forward(self, x: torch.Tensor):
            y = x[:, x[0] > 0]  # <- MG203 warning
            return y
    """),
    "isnan": in_net("""
        def forward(self, x: torch.Tensor):
            y = x[torch.isnan(x)]  # <- MG203 warning
            return y
    """),
    "cast": in_net("""
        def forward(self, x: torch.Tensor):
            y = x[self.mean.bool()]  # <- MG203 warning
            return y
    """),
    "packed": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.nn.utils.rnn.pack_padded_sequence(x, [1])  # <- MG203 warning
            return y
    """),
    "named-mask": in_net("""
        def forward(self, x: torch.Tensor, mask: torch.Tensor):
            return x[mask]  # <- MG203 warning
    """),
    "kept-mask": in_net("""
        def forward(self, x: torch.Tensor):
            keep = x > 0
            return x[keep]  # <- MG203 warning
    """),
    "argument-by-its-use": in_net("""
        def forward(self, x, mask):
            return mask.nonzero()  # <- MG203 warning
    """),
}

OUTPUT = {
    "print": in_net("""
        def forward(self, x: torch.Tensor):
            print("a")  # <- MG204 warning
            return x
    """),
    "warn": in_net(
        """
        def forward(self, x: torch.Tensor):
            warnings.warn("a")  # <- MG204 warning
            return x
    """,
        before="""
        import warnings
    """,
    ),
    "warn-by-name": in_net(
        """
        def forward(self, x: torch.Tensor):
            warn("a")  # <- MG204 warning
            return x
    """,
        before="""
        from warnings import warn
    """,
    ),
    "logger": in_net(
        """
        def forward(self, x: torch.Tensor):
            logger.info("a")  # <- MG204 warning
            return x
    """,
        before="""
        import logging
        logger = logging.getLogger(__name__)
    """,
    ),
    "once": in_net(
        """
        def forward(self, x: torch.Tensor):
            logger.warning_once("a")  # <- MG204 warning
            return x
    """,
        before="""
        from lib import logger
    """,
    ),
    "own": in_net("""
        def forward(self, x: torch.Tensor):
            self.logger.debug("a")  # <- MG204 warning
            return x
    """),
    "logging": in_net(
        """
        def forward(self, x: torch.Tensor):
            logging.warning("a")  # <- MG204 warning
            return x
    """,
        before="""
        import logging
    """,
    ),
    "got": in_net(
        """
        def forward(self, x: torch.Tensor):
            logging.getLogger("a").error("b")  # <- MG204 warning
            return x
    """,
        before="""
        import logging
    """,
    ),
    "stdout": in_net(
        """
        def forward(self, x: torch.Tensor):
            sys.stdout.write("a")  # <- MG204 warning
            return x
    """,
        before="""
        import sys
    """,
    ),
    "tensor": in_net("""
        def forward(self, x: torch.Tensor):
            print(x.item())  # <- MG204 warning
            return x
    """),
    "breakpoint": in_net("""
        def forward(self, x: torch.Tensor):
            breakpoint()  # <- MG204 warning
            return x
    """),
    "helper": in_net(
        """
        def forward(self, x: torch.Tensor):
            return show(x)
    """,
        before="""
        def show(y):
            print(y)  # <- MG204 warning
            return y
    """,
    ),
}

CHANCE = {
    "time": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = time.time()  # <- MG205 warning
            return x, y
    """,
        before="""
        import time
    """,
    ),
    "perf-counter": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = perf_counter()  # <- MG205 warning
            return x, y
    """,
        before="""
        from time import perf_counter
    """,
    ),
    "now": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = datetime.datetime.now()  # <- MG205 warning
            return x, y
    """,
        before="""
        import datetime
    """,
    ),
    "random": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = random.random()  # <- MG205 warning
            return x, y
    """,
        before="""
        import random
    """,
    ),
    "randint": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = randint(0, 3)  # <- MG205 warning
            return x, y
    """,
        before="""
        from random import randint
    """,
    ),
    "numpy": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = np.random.rand()  # <- MG205 warning
            return x, y
    """,
        before="""
        import numpy as np
    """,
    ),
    "uuid": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = uuid.uuid4()  # <- MG205 warning
            return x, y
    """,
        before="""
        import uuid
    """,
    ),
    "generator": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = RNG.normal()  # <- MG205 warning
            return x, y
    """,
        before="""
        import numpy as np
        RNG = np.random.default_rng(0)
    """,
    ),
    "own-generator": in_net(
        """
        def forward(self, x: torch.Tensor):
            return x * self.rng.random()  # <- MG205 warning
    """,
        before="""
        import random
    """,
        init="""
        self.rng = random.Random(0)
    """,
    ),
}

OPAQUE = {
    "data-parallel": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = self.part(x)  # <- MG206 warning
            return y
    """,
        init="""
        self.part = nn.DataParallel(nn.Linear(2, 2))
    """,
    ),
    "distributed": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = self.part(x)  # <- MG206 warning
            return y
    """,
        init="""
        self.part = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    """,
    ),
    "lstm": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = self.part(x)  # <- MG206 warning
            return y
    """,
        init="""
        self.part = nn.LSTM(2, 2)
    """,
    ),
    "gru": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = self.part(x)  # <- MG206 warning
            return y
    """,
        init="""
        self.part = nn.GRU(2, 2)
    """,
    ),
    "scripted": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = self.part(x)  # <- MG206 warning
            return y
    """,
        init="""
        self.part = torch.jit.script(nn.Linear(2, 2))
    """,
    ),
    "disabled": in_net(
        """
        def forward(self, x: torch.Tensor):
            y = self.part(x)  # <- MG206 warning
            return y
    """,
        init="""
        self.part = torch.compiler.disable(nn.Linear(2, 2))
    """,
    ),
    "disabled-function": in_net(
        """
        def forward(self, x: torch.Tensor):
            return slow(x)  # <- MG206 warning
    """,
        before="""
        @torch._dynamo.disable
        def slow(y):
            print(y)
            return y
    """,
    ),
    "disabled-with-options": in_net(
        """
        def forward(self, x: torch.Tensor):
            return slow(x)  # <- MG206 warning
    """,
        before="""
        @torch.compiler.disable(recursive=False)
        def slow(y):
            return y
    """,
    ),
    "disabled-on-the-spot": in_net(
        """
        def forward(self, x: torch.Tensor):
            slow = torch.compiler.disable(step)
            return slow(x)  # <- MG206 warning
    """,
        before="""
        def step(y):
            return y
    """,
    ),
    "disabled-child": in_net(
        """
        def forward(self, x: torch.Tensor):
            return self.part(x)  # <- MG206 warning
    """,
        before="""
        class Part(nn.Module):
            @torch.compiler.disable
            def forward(self, x):
                return x
    """,
        init="""
        self.part = Part()
    """,
    ),
    "list-of-rnns": in_net(
        """
        def forward(self, x: torch.Tensor):
            for part in self.parts:
                x, _ = part(x)  # <- MG206 warning
            return x
    """,
        init="""
        self.parts = nn.ModuleList(nn.GRU(2, 2) for _ in range(2))
    """,
    ),
    "hook": in_net("""
        def forward(self, x: torch.Tensor):
            handle = self.proj.register_forward_hook(print)  # <- MG206 warning
            handle.remove()
            return self.proj(x)
    """),
    "graph-break": in_net("""
        def forward(self, x: torch.Tensor):
            torch._dynamo.graph_break()  # <- MG206 warning
            return x
    """),
}

COPIES = {
    "tensor": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.tensor(self.n, device=x.device)  # <- MG207 warning
            return x, y
    """),
    "list": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.tensor([1, 2], device=x.device)  # <- MG207 warning
            return x, y
    """),
    "as-tensor": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.as_tensor(self.history, device=x.device)  # <- MG207 warning
            return x, y
    """),
    "new-tensor": in_net("""
        def forward(self, x: torch.Tensor):
            y = x.new_tensor([1.0])  # <- MG207 warning
            return x, y
    """),
    "moved": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.tensor([1, 2]).to(x.device)  # <- MG207 warning
            return x, y
    """),
    "cuda": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.arange(4).cuda()  # <- MG207 warning
            return x, y
    """),
    "type-as": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.zeros(4).type_as(x)  # <- MG207 warning
            return x, y
    """),
    "to-tensor": in_net("""
        def forward(self, x: torch.Tensor):
            y = torch.ones(4).to(x)  # <- MG207 warning
            return x, y
    """),
    "computed": in_net("""
        def forward(self, x: torch.Tensor):
            y = (1.0 / torch.arange(1, 4).float()).to(x.device)  # <- MG207 warning
            return x, y
    """),
    "attribute": in_net("""
        def forward(self, x: torch.Tensor):
            y = self.anchor.to(x.device)  # <- MG207 warning
            return x, y
    """),
    "by-name": in_net("""
        def forward(self, x: torch.Tensor):
            y = getattr(self, "anchor").to(device=x.device)  # <- MG207 warning
            return x, y
    """),
}

SIZES = {
    "size": in_net("""
        def forward(self, x: torch.Tensor):
            if x.size(0) % 4 == 0:  # <- MG208 note
                return x * 2
            return x
    """),
    "shape": in_net("""
        def forward(self, x: torch.Tensor):
            if x.shape[0] > 1:  # <- MG208 note
                return x * 2
            return x
    """),
    "numel": in_net("""
        def forward(self, x: torch.Tensor):
            if x.numel() == 0:  # <- MG208 note
                return x * 2
            return x
    """),
    "len": in_net("""
        def forward(self, x: torch.Tensor):
            if len(x) > 3:  # <- MG208 note
                return x * 2
            return x
    """),
    "shapes": in_net("""
        def forward(self, x: torch.Tensor):
            if x.shape == self.mean.shape:  # <- MG208 note
                return x * 2
            return x
    """),
    "unpacked": in_net("""
        def forward(self, x: torch.Tensor):
            n, m = x.shape
            if n > 2:  # <- MG208 note
                return x * 2
            return x
    """),
    "ceil": in_net(
        """
        def forward(self, x: torch.Tensor):
            if math.ceil(x.shape[0] / 2) > 1:  # <- MG208 note
                return x * 2
            return x
    """,
        before="""
        import math
    """,
    ),
    "while": in_net("""
        def forward(self, x: torch.Tensor):
            while x.shape[0] > 2:  # <- MG208 note
                x = x[::2]
            return x
    """),
}

GUARDS = {
    "training": in_net("""
        def forward(self, x: torch.Tensor):
            if self.training:
                x = x * x.max().item()  # <- MG201 note
            return x
    """),
    "training-print": in_net("""
        def forward(self, x: torch.Tensor):
            if self.training:
                print('step')  # <- MG204 note
            return x
    """),
    "compiling": in_net("""
        def forward(self, x: torch.Tensor):
            if not torch.compiler.is_compiling():
                print(x.item())
            return x
    """),
    "dynamo": in_net("""
        def forward(self, x: torch.Tensor):
            if not torch._dynamo.is_compiling():
                print(x.item())
            return x
    """),
    "exporting": in_net("""
        def forward(self, x: torch.Tensor):
            if not torch.compiler.is_exporting():
                print(x.item())
            return x
    """),
    "scripting": in_net("""
        def forward(self, x: torch.Tensor):
            if torch.jit.is_scripting():
                print(x.item())
            return x
    """),
    "tracing": in_net("""
        def forward(self, x: torch.Tensor):
            if torch.jit.is_tracing():
                print(x.item())
            return x
    """),
    "capturing": in_net("""
        def forward(self, x: torch.Tensor):
            if not torch.cuda.is_current_stream_capturing():
                print(x.item())
            return x
    """),
    "compiling-and": in_net("""
        def forward(self, x: torch.Tensor):
            if not torch.compiler.is_compiling() and x.isnan().any():
                raise ValueError
            return x
    """),
    "before-raise": in_net("""
        def forward(self, x: torch.Tensor):
            if x.ndim > 3:
                message = f'{x}'
                print(message)
                raise ValueError(message)
            return x
    """),
    "in-raise": in_net("""
        def forward(self, x: torch.Tensor):
            if x.ndim > 3:
                raise ValueError(f'{x}')
            return x
    """),
    "except": in_net("""
        def forward(self, x: torch.Tensor):
            try:
                return self.proj(x)
            except RuntimeError:
                print('failed')
                return x
    """),
    "after-an-eager-return": in_net("""
        def forward(self, x: torch.Tensor):
            if torch.compiler.is_compiling():
                return x
            return x * x.max().item()
    """),
}

SILENT = {
    "told-apart-by-its-type": in_net("""
        def forward(self, x: torch.Tensor):
            y = x if torch.is_tensor(x) else torch.tensor([x])
            if isinstance(x, int):
                return torch.arange(x)
            if isinstance(x, torch.Tensor):
                return x + y
            return float(x)
    """),
    "version": in_net("""
        def forward(self, x):
            major = int(torch.__version__.split(".")[0])
            if major > 2 or int(torch.version.cuda.split(".")[0]) > 12:
                return x * 2
            return x
    """),
    "shape-that-raises": in_net("""
        def forward(self, x: torch.Tensor):
            if x.shape[1] != self.n:
                raise ValueError('wrong width')
            return x
    """),
    "shape-that-warns-is-no-branch": in_net("""
        def forward(self, x: torch.Tensor):
            assert x.shape[0] > 0, x.shape
            return x
    """),
    "sizes-are-numbers": in_net("""
        def forward(self, x: torch.Tensor):
            n = int(x.shape[0] * 0.5)
            m = float(x.size(1))
            return x[: n + max(n, len(x))], range(n), m
    """),
    "rank": in_net("""
        def forward(self, x: torch.Tensor):
            if x.dim() == 3 and x.ndim > 2:
                return x[0]
            return x
    """),
    "dtype": in_net("""
        def forward(self, x: torch.Tensor):
            if x.dtype == torch.float16 or x.device.type == 'cuda' or x.is_cuda:
                return x.float()
            return x
    """),
    "none": in_net("""
        def forward(self, x: torch.Tensor):
            if self.mask is None:
                return x
            return x + self.mask
    """),
    "isinstance": in_net("""
        def forward(self, x: torch.Tensor):
            if isinstance(x, torch.Tensor) and torch.is_tensor(x):
                return x
            return x[0]
    """),
    "own-numbers": in_net("""
        def forward(self, x: torch.Tensor):
            if self.n > 3 or self.ready or not self.history:
                return x * float(self.n)
            return x
    """),
    "config": in_net("""
        def forward(self, x: torch.Tensor):
            if bool(self.config.flag) and self.config.limit > 3:
                return x * int(self.config.limit)
            return x
    """),
    "config-arithmetic": in_net("""
        def forward(self, x: torch.Tensor):
            n = self.config.heads * self.config.width
            if n - 1 > 4:
                return x[:n]
            return x[: n // 2]
    """),
    "item-of-an-unknown": in_net("""
        def forward(self, x: torch.Tensor):
            return x, self.config.scale.item(), self.config.table.tolist()
    """),
    "dict-items": in_net("""
        def forward(self, x: torch.Tensor):
            for name, value in self.cache.items():
                x = x + value
            return x
    """),
    "dict-key": in_net("""
        def forward(self, x: torch.Tensor):
            return x + self.cache['a']
    """),
    "indices": in_net("""
        def forward(self, x: torch.Tensor):
            index = x.argsort()
            return x[index], x[0], x[:, -1], x[..., None], x[[0, 1]]
    """),
    "masked-store": in_net("""
        def forward(self, x: torch.Tensor):
            x = x.clone()
            x[x > 0] = 0.0
            return x
    """),
    "where": in_net("""
        def forward(self, x: torch.Tensor):
            return torch.where(x > 0, x, 0.0)
    """),
    "sized-one-hot": in_net("""
        def forward(self, x: torch.Tensor):
            return F.one_hot(x, 4), torch.repeat_interleave(x, 2), torch.nonzero_static(x, size=4)
    """),
    "on-the-device": in_net("""
        def forward(self, x: torch.Tensor):
            return torch.arange(4, device=x.device) + torch.full((), 2, device=x.device) + torch.zeros_like(x)
    """),
    "cast": in_net("""
        def forward(self, x: torch.Tensor):
            return self.anchor.to(x.dtype) + self.mean.to(x.device) + self.weight.cuda()
    """),
    "cpu-on-purpose": in_net("""
        def forward(self, x: torch.Tensor):
            return torch.tensor([1.0, 2.0]), torch.tensor(1.0, device="cpu")
    """),
    "maths": in_net("""
        def forward(self, x: torch.Tensor):
            return torch.log(x) + x.log() + x.exp()
    """),
    "cell": in_net(
        """
        def forward(self, x: torch.Tensor):
            return self.cell(x)
    """,
        init="""
        self.cell = nn.LSTMCell(4, 4)
    """,
    ),
    "checkpoint": in_net("""
        def forward(self, x: torch.Tensor):
            return torch.utils.checkpoint.checkpoint(self.proj, x, use_reentrant=False)
    """),
    "parameter-sizes": in_net("""
        def forward(self, x: torch.Tensor):
            if self.weight.shape[0] > 3:
                return x * 2
            return x
    """),
    "loop-over-rows": in_net("""
        def forward(self, x: torch.Tensor):
            total = 0
            for row in x:
                total = total + row
            return total
    """),
    "asynchronous-assert": in_net("""
        def forward(self, x: torch.Tensor):
            torch._assert_async(x.any())
            torch._check(x.ndim > 1, lambda: f'{x}')
            return x
    """),
    "cond": in_net("""
        def forward(self, x: torch.Tensor):
            return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))
    """),
    "arguments-of-numbers": in_net("""
        def forward(self, x, flag: bool = False, n: int = 3):
            if flag and n > 3:
                return x[:n] * float(n)
            return x
    """),
    "unknown-argument": in_net("""
        def forward(self, x, other):
            if other:
                return x
            return x * other.scale, other.item()
    """),
    "number-or-tensor": in_net("""
        def forward(self, x, n: int | torch.Tensor):
            if n > 3:
                return x
            return x
    """),
    "numpy-array": in_net(
        """
        def forward(self, x: torch.Tensor):
            first = float(self.table[0]) + self.table.sum().item()
            if self.table.max() > 3:
                return x * first
            return x * int(self.table.mean())
    """,
        before="""
        import numpy as np
    """,
        init="""
        self.table = np.linspace(0, 1, 4)
    """,
    ),
    "scripted-function": in_net(
        """
        def forward(self, x: torch.Tensor):
            return gated(x)
    """,
        before="""
        @torch.jit.script
        def gated(x: torch.Tensor):
            return x * 2
    """,
    ),
    "outside-the-region": in_net(
        """
        def forward(self, x):
            return x

        def report(self, x):
            print(x.item(), time.time())
    """,
        before="import time",
    ),
    "constructor": in_net(
        """
        def forward(self, x):
            return x
    """,
        init="""
        print(self.mean.item(), torch.nonzero(self.mean))
    """,
    ),
    "tqdm": in_net("""
        def forward(self, x: torch.Tensor):
            return x, [layer for layer in self.layers]
    """),
}
