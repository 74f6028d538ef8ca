"""How generated code is run and compared in these tests, and what several of them trace."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import Graph, GraphModule, Interpreter
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.immutable_collections import immutable_dict, immutable_list

from modelguard.codegen import compile_execution_fn, generate_execution_code


class Code(NamedTuple):
    """What `generate_execution_code` returns."""

    text: str
    names: list[str]
    consts: list[Any]


def reference_execution_fn(
    code: str, callables: Mapping[str, Any], names: Sequence[str], consts: list[Any] | None = None
) -> Callable[..., Any]:
    """Bind code as vLLM's executor does, written after the contract: what we generate must run under it."""
    namespace: dict[str, Any] = {"__vllm_consts__": consts}
    exec(code, namespace)
    submods = [callables.get(name) for name in names]
    return functools.partial(namespace["execution_fn"], __vllm_submods__=submods)


def generated(gm: GraphModule) -> Code:
    return Code(*generate_execution_code(gm))


def bound(gm: GraphModule, code: Code | None = None) -> Callable[..., Any]:
    text, names, consts = code or generated(gm)
    return compile_execution_fn(text, dict(gm.named_modules()), names, consts)


def graph_of(build: Callable[[Graph], object], **members: Any) -> GraphModule:
    """A graph module whose graph `build` makes; what it returns, if anything, is the output.

    Its `forward` is compiled when it is called: `fx` cannot spell all the graphs that its Interpreter runs.
    """
    root = torch.nn.Module()
    for name, member in members.items():
        setattr(root, name, member)
    graph = Graph()
    result = build(graph)
    if result is not None:
        graph.output(result)
    return _LazyGraphModule(root, graph)


def interpreted(gm: GraphModule, *inputs: Any) -> Any:
    """What the Interpreter makes of `gm`, flat inputs and results of structured graphs put together as `forward` does."""
    return Interpreter(gm).run(*inputs)


def assert_same(actual: Any, expected: Any, where: str = "the result") -> None:
    """Equal in type, structure and every bit. The Interpreter hands on a graph's own read-only lists; they are lists."""
    assert _kind(actual) is _kind(expected), where
    if isinstance(expected, torch.Tensor):
        assert (actual.dtype, actual.shape, actual.requires_grad) == (expected.dtype, expected.shape, expected.requires_grad), (
            where
        )
        assert torch.equal(_bits(actual), _bits(expected)), where
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), where
        for key, item in expected.items():
            assert_same(actual[key], item, f"{where}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), where
        for place, (one, other) in enumerate(zip(actual, expected, strict=True)):
            assert_same(one, other, f"{where}[{place}]")
    elif isinstance(expected, slice):
        assert_same(_bounds(actual), _bounds(expected), where)
    elif isinstance(expected, (float, complex)):
        assert repr(actual) == repr(expected), where
    else:
        assert actual == expected, where


def _kind(value: Any) -> type:
    return {immutable_list: list, immutable_dict: dict}.get(type(value), type(value))


def _bounds(value: slice) -> tuple[Any, Any, Any]:
    return value.start, value.stop, value.step


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().contiguous().reshape(-1).view(torch.uint8)


def check(gm: GraphModule, *inputs: Any, run: Callable[..., Any] = interpreted) -> Code:
    """Generated code gives what `run` (the Interpreter) gives, under our executor and under the reference's.

    Each run has its own copies of the inputs, so that graphs may write to them; what they wrote is compared, too.
    """
    code = generated(gm)
    assert code.text == generated(gm).text
    mine, reference, theirs = (copy.deepcopy(inputs) for _ in range(3))
    torch.manual_seed(0)
    expected = run(gm, *theirs)
    for function, given in (
        (bound(gm, code), mine),
        (reference_execution_fn(code.text, dict(gm.named_modules()), code.names, code.consts), reference),
    ):
        torch.manual_seed(0)
        assert_same(function(*given), expected)
        assert_same(given, theirs, "what is left in the inputs")
    return code


def double(x: Any) -> Any:
    """A user's function."""
    return x * 2


class Attention(torch.nn.Module):
    """Self-attention under a causal mask of `-inf`, which every serving engine splits at."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mask = torch.full((length, length), -math.inf, dtype=x.dtype).triu(1)
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Decoder(torch.nn.Module):
    """Two layers of a language model."""

    def __init__(self, words: int = 17, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.attention = torch.nn.ModuleList(Attention(width, heads) for _ in range(2))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.head = torch.nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for attention, norm in zip(self.attention, self.norms, strict=True):
            x = x + attention(norm(x))
        return self.head(torch.nn.functional.gelu(x))


class ConvNet(torch.nn.Module):
    """Convolutions and batch norms, which write to their buffers in training."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(4)
        self.second = torch.nn.Conv2d(4, 4, 3, padding=1)
        self.norm_2 = torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(image)))
        x = torch.relu(self.norm_2(self.second(x)) + x)
        return self.head(torch.nn.functional.max_pool2d(x, 2).mean((2, 3)))


class Experts(torch.nn.Module):
    """Each token goes to its two best experts; all are computed, so that no shape depends on data."""

    def __init__(self, width: int = 8, experts: int = 4) -> None:
        super().__init__()
        self.router = torch.nn.Linear(width, experts)
        self.experts = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(self.router(x), -1)
        best, chosen = torch.topk(scores, 2, dim=-1)
        weights = torch.zeros_like(scores).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
        outputs = torch.stack([expert(x) for expert in self.experts], -2)
        return (outputs * weights.unsqueeze(-1)).sum(-2)
