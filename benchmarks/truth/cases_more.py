"""More packages: transformers with reversible layers, routing, memories and recorders, mixtures of experts, codecs, vision."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from truth.cases import Case
from truth.cases_small import Make, Values, build, rows, tokens
from truth.record import Call
from truth.torchvision_stub import torchvision_or_stand_in

TEXT = {"num_tokens": 32, "dim": 32, "depth": 2, "max_seq_len": 64, "heads": 2}


def sequences() -> Values:
    """Token sequences of the one length that these models take."""
    return tokens(64, 64)


def audio() -> Values:
    """Mono waves."""
    return lambda: [torch.randn(2, 1, length) for length in (4096, 8192)]


def images() -> Values:
    """Small images."""
    return lambda: [torch.randn(2, 3, 32, 32)] * 2


def inner(module: str, name: str, *arguments: Any, **options: Any) -> nn.Module:
    """An instance of a class that its package does not export at the top."""
    made: nn.Module = getattr(importlib.import_module(module), name)(*arguments, **options)
    return made


def small_vit(m: Any) -> Any:
    """The smallest vision transformer."""
    return m.ViT(image_size=32, patch_size=8, num_classes=5, dim=32, depth=2, heads=2, mlp_dim=32, dim_head=16)


MODELS: list[tuple[str, str, Make, Values]] = [
    ("performer_pytorch", "lm", lambda m: m.PerformerLM(**TEXT, dim_head=16, causal=False), sequences()),
    ("performer_pytorch", "redraw", lambda m: m.PerformerLM(**TEXT, dim_head=16, feature_redraw_interval=1), sequences()),
    ("performer_pytorch", "reversible", lambda m: m.PerformerLM(**TEXT, dim_head=16, reversible=True, ff_chunks=2), sequences()),
    (
        "performer_pytorch",
        "attention",
        lambda m: m.FastAttention(16, nb_features=32),
        lambda: [tuple(torch.randn(2, 2, 16, 16) for _ in range(3))] * 2,
    ),
    ("reformer_pytorch", "lm", lambda m: m.ReformerLM(**TEXT, dim_head=16, bucket_size=8, n_hashes=2, ff_chunks=2), sequences()),
    (
        "reformer_pytorch",
        "causal",
        lambda m: m.ReformerLM(**TEXT, dim_head=16, bucket_size=8, n_hashes=2, ff_chunks=2, causal=True, weight_tie=True),
        sequences(),
    ),
    (
        "reformer_pytorch",
        "recorder",
        lambda m: m.Recorder(m.ReformerLM(**TEXT, dim_head=16, bucket_size=8, n_hashes=2, ff_chunks=2)),
        sequences(),
    ),
    (
        "reformer_pytorch",
        "autopadder",
        lambda m: m.Autopadder(m.ReformerLM(**TEXT, dim_head=16, bucket_size=8, n_hashes=2, ff_chunks=2)),
        tokens(40, 60),
    ),
    (
        "reformer_pytorch",
        "lsh",
        lambda m: m.LSHAttention(bucket_size=8, n_hashes=2),
        lambda: [(torch.randn(2, 32, 16), torch.randn(2, 32, 16))] * 2,
    ),
    (
        "reformer_pytorch",
        "axial",
        lambda m: m.ReformerLM(
            **TEXT,
            dim_head=16,
            bucket_size=8,
            n_hashes=2,
            ff_chunks=2,
            axial_position_emb=True,
            axial_position_shape=(8, 8),
        ),
        sequences(),
    ),
    (
        "routing_transformer",
        "lm",
        lambda m: m.RoutingTransformerLM(**TEXT, dim_head=16, window_size=16, n_local_attn_heads=1),
        sequences(),
    ),
    (
        "routing_transformer",
        "causal",
        lambda m: m.RoutingTransformerLM(**TEXT, dim_head=16, window_size=16, causal=True, reversible=True),
        sequences(),
    ),
    (
        "routing_transformer",
        "kmeans",
        lambda m: inner("routing_transformer.routing_transformer", "KmeansAttention", 4, 8, 2, 16),
        lambda: [tuple(torch.randn(2, 2, 32, 16) for _ in range(3))] * 3,
    ),
    (
        "linear_attention_transformer",
        "lm",
        lambda m: m.LinearAttentionTransformerLM(**TEXT, dim_head=16, n_local_attn_heads=1, local_attn_window_size=16),
        sequences(),
    ),
    (
        "linear_attention_transformer",
        "causal",
        lambda m: m.LinearAttentionTransformerLM(**TEXT, dim_head=16, causal=True, reversible=True, blindspot_size=4),
        sequences(),
    ),
    (
        "linear_attention_transformer",
        "image",
        lambda m: m.ImageLinearAttention(16, heads=2, key_dim=8),
        lambda: [torch.randn(2, 16, 8, 8)] * 2,
    ),
    ("sinkhorn_transformer", "lm", lambda m: m.SinkhornTransformerLM(**TEXT, dim_head=16, bucket_size=16), sequences()),
    (
        "sinkhorn_transformer",
        "causal",
        lambda m: m.SinkhornTransformerLM(**TEXT, dim_head=16, bucket_size=16, causal=True, reversible=True),
        sequences(),
    ),
    ("titans_pytorch", "memory", lambda m: m.NeuralMemory(dim=32, chunk_size=8), rows(32, 64, dim=32)),
    (
        "titans_pytorch",
        "momentum",
        lambda m: m.NeuralMemory(dim=32, chunk_size=8, heads=2, dim_head=16, momentum=True, qk_rmsnorm=True),
        rows(32, 64, dim=32),
    ),
    (
        "titans_pytorch",
        "context",
        lambda m: m.MemoryAsContextTransformer(
            num_tokens=32,
            dim=32,
            depth=2,
            segment_len=16,
            num_persist_mem_tokens=2,
            num_longterm_mem_tokens=2,
            heads=2,
            dim_head=16,
        ),
        tokens(48, 64),
    ),
    (
        "snac",
        "codec",
        lambda m: m.SNAC(
            encoder_dim=8,
            encoder_rates=[2, 2],
            decoder_dim=16,
            decoder_rates=[2, 2],
            codebook_size=16,
            vq_strides=[2, 1],
            attn_window_size=8,
        ),
        audio(),
    ),
    (
        "snac",
        "plain",
        lambda m: m.SNAC(
            encoder_dim=8,
            encoder_rates=[2, 2],
            decoder_dim=16,
            decoder_rates=[2, 2],
            codebook_size=16,
            vq_strides=[2, 1],
            attn_window_size=None,
            noise=False,
        ),
        audio(),
    ),
    ("st_moe_pytorch", "moe", lambda m: m.MoE(dim=32, num_experts=4), rows(16, 24, dim=32)),
    (
        "st_moe_pytorch",
        "block",
        lambda m: m.SparseMoEBlock(m.MoE(dim=32, num_experts=4), add_ff_before=True),
        rows(16, 24, dim=32),
    ),
    ("mixture_of_experts", "moe", lambda m: m.MoE(dim=32, num_experts=4), rows(16, 24, dim=32)),
    ("mixture_of_experts", "hierarchical", lambda m: m.HeirarchicalMoE(dim=32, num_experts=(2, 2)), rows(16, 24, dim=32)),
    (
        "perceiver_pytorch",
        "plain",
        lambda m: m.Perceiver(
            num_freq_bands=2,
            depth=2,
            max_freq=4.0,
            num_latents=8,
            latent_dim=32,
            latent_heads=2,
            num_classes=5,
            weight_tie_layers=True,
        ),
        lambda: [torch.randn(2, 8, 8, 3)] * 2,
    ),
    (
        "perceiver_pytorch",
        "io",
        lambda m: m.PerceiverIO(depth=2, dim=16, queries_dim=16, num_latents=8, latent_dim=32, latent_heads=2),
        lambda: [{"args": (torch.randn(2, 12, 16),), "queries": torch.randn(5, 16)}] * 2,
    ),
    ("product_key_memory", "plain", lambda m: m.PKM(dim=32, heads=2, num_keys=16, topk=4, dim_head=16), rows(8, 12, dim=32)),
    (
        "axial_positional_embedding",
        "plain",
        lambda m: m.AxialPositionalEmbedding(dim=16, axial_shape=(8, 8)),
        lambda: [torch.randn(2, 64, 16)] * 2,
    ),
    ("linformer", "lm", lambda m: m.LinformerLM(num_tokens=32, dim=32, seq_len=64, depth=1, heads=2, k=16), sequences()),
    (
        "memorizing_transformers_pytorch",
        "xl",
        lambda m: m.MemorizingTransformer(
            num_tokens=32,
            dim=32,
            depth=2,
            heads=2,
            dim_head=16,
            memorizing_layers=(),
            xl_memory_layers=(1, 2),
            xl_max_memories=16,
        ),
        tokens(16, 16),
    ),
    (
        "byol_pytorch",
        "plain",
        lambda m: m.BYOL(Backbone(), image_size=32, hidden_layer="pool", augment_fn=nn.Identity(), augment_fn2=nn.Identity()),
        images(),
    ),
    (
        "byol_pytorch",
        "siamese",
        lambda m: m.BYOL(
            Backbone(),
            image_size=32,
            hidden_layer="pool",
            use_momentum=False,
            augment_fn=nn.Identity(),
            augment_fn2=nn.Identity(),
        ),
        images(),
    ),
    ("vit_pytorch", "recorder", lambda m: inner("vit_pytorch.recorder", "Recorder", small_vit(m)), images()),
    ("vit_pytorch", "extractor", lambda m: inner("vit_pytorch.extractor", "Extractor", small_vit(m)), images()),
    ("vit_pytorch", "mae", lambda m: m.MAE(encoder=small_vit(m), decoder_dim=32, decoder_heads=2, decoder_dim_head=8), images()),
    (
        "vit_pytorch",
        "dino",
        lambda m: m.Dino(
            small_vit(m),
            32,
            hidden_layer="to_latent",
            projection_hidden_size=16,
            num_classes_K=16,
            augment_fn=nn.Identity(),
            augment_fn2=nn.Identity(),
        ),
        images(),
    ),
    ("vit_pytorch", "simmim", lambda m: inner("vit_pytorch.simmim", "SimMIM", encoder=small_vit(m)), images()),
]


class Backbone(nn.Module):
    """A small convolutional network with a named pooling layer."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits."""
        out: torch.Tensor = self.head(self.pool(self.convolution(x)).flatten(1))
        return out


VISION: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 8,
    "image_patch_size": 8,
    "num_classes": 5,
    "dim": 32,
    "depth": 2,
    "heads": 2,
    "mlp_dim": 32,
    "dim_head": 16,
    "frames": 4,
    "frame_patch_size": 2,
    "spatial_depth": 1,
    "temporal_depth": 1,
    "cls_depth": 1,
    "seq_len": 64,
    "max_tokens_per_depth": (16, 8),
    "num_slots": 4,
}


def build_vision(module: str, name: str) -> tuple[nn.Module, list[Call]]:
    """A vision transformer, on images or, where it counts frames, on clips."""
    kind = getattr(importlib.import_module(module), name)
    parameters = inspect.signature(kind.__init__).parameters
    model = kind(**{key: value for key, value in VISION.items() if key in parameters})
    clip = (4,) if "frames" in parameters else ()
    shape = (2, 3, 64) if "seq_len" in parameters else (2, 3, *clip, 32, 32)
    return model, [((torch.randn(shape),), {}) for _ in range(2)]


def cases() -> Iterator[Case]:
    """One case a way to use each class of the packages that are installed."""
    usable = {package: _can_import(package) for package in {package for package, *_ in MODELS}}
    for package, name, make, values in MODELS:
        if usable[package]:
            yield Case(f"{package}:{name}", partial(build, package, make, values))
    if usable["vit_pytorch"]:
        yield from _vision_cases()


def _can_import(package: str) -> bool:
    if importlib.util.find_spec(package) is None:
        return False
    with torchvision_or_stand_in():
        try:
            importlib.import_module(package)
        except ImportError:
            return False
    return True


def _vision_cases() -> Iterator[Case]:
    import vit_pytorch

    for information in pkgutil.iter_modules(vit_pytorch.__path__, "vit_pytorch."):
        with torchvision_or_stand_in():
            try:
                module = importlib.import_module(information.name)
            except ImportError:
                continue
        for name, kind in vars(module).items():
            if inspect.isclass(kind) and issubclass(kind, nn.Module) and kind.__module__ == information.name:
                parameters = inspect.signature(kind.__init__).parameters
                required = [key for key, value in parameters.items() if value.default is value.empty][1:]
                if "num_classes" in parameters and set(required) <= set(VISION):
                    yield Case(
                        f"vit_pytorch:{information.name.split('.')[1]}:{name}", partial(build_vision, information.name, name)
                    )
