"""Packages with codebooks, rotary caches, moving averages and recorders."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from truth.cases import Case
from truth.record import Call

Make = Callable[[Any], nn.Module]
Values = Callable[[], list[Any]]


def build(package: str, make: Make, values: Values) -> tuple[nn.Module, list[Call]]:
    """The module, and one call for each value: a tensor, a tuple of arguments, or arguments and keywords."""
    model = make(importlib.import_module(package))
    calls: list[Call] = []
    for value in values():
        if isinstance(value, dict):
            calls.append((tuple(value.pop("args", ())), value))
        else:
            calls.append((value if isinstance(value, tuple) else (value,), {}))
    return model, calls


def rows(*lengths: int, dim: int = 16) -> Values:
    """Sequences of vectors, of these lengths."""
    return lambda: [torch.randn(2, length, dim) for length in lengths]


def tokens(*lengths: int) -> Values:
    """Sequences of token ids, of these lengths."""
    return lambda: [torch.randint(0, 32, (2, length)) for length in lengths]


def masked(dim: int = 16) -> Values:
    """Sequences of vectors, with and without a mask."""

    def values() -> list[Any]:
        mask = torch.ones(2, 12, dtype=torch.bool)
        mask[1, 8:] = False
        return [{"args": (torch.randn(2, 12, dim),), "mask": mask}, torch.randn(2, 12, dim)]

    return values


def maps(dim: int = 16) -> Values:
    """Feature maps."""
    return lambda: [torch.randn(2, dim, 8, 8), torch.randn(2, dim, 6, 6)]


def heads() -> Values:
    """Queries, keys and values."""
    return lambda: [tuple(torch.randn(2, 4, length, 16) for _ in range(3)) for length in (32, 64, 16)]


QUANTIZERS: dict[str, tuple[Make, Values]] = {
    "plain": (lambda m: m.VectorQuantize(16, 32), rows(12, 20, 12)),
    "one-code": (lambda m: m.VectorQuantize(16, 32), lambda: [torch.randn(4, 16)] * 2),
    "masked": (lambda m: m.VectorQuantize(16, 32), masked()),
    "kmeans": (lambda m: m.VectorQuantize(16, 8, kmeans_init=True, kmeans_iters=2), rows(32, 32)),
    "kmeans-masked": (lambda m: m.VectorQuantize(16, 8, kmeans_init=True, kmeans_iters=2), masked()),
    "cosine": (lambda m: m.VectorQuantize(16, 8, use_cosine_sim=True, kmeans_init=True, kmeans_iters=2), rows(32, 32)),
    "dead-codes": (lambda m: m.VectorQuantize(16, 64, threshold_ema_dead_code=4), rows(12, 20, 12)),
    "dead-codes-cosine": (lambda m: m.VectorQuantize(16, 64, threshold_ema_dead_code=4, use_cosine_sim=True), rows(12, 20)),
    "heads": (lambda m: m.VectorQuantize(16, 32, codebook_dim=8, heads=2, separate_codebook_per_head=True), rows(12, 20)),
    "shared-heads": (lambda m: m.VectorQuantize(16, 32, codebook_dim=8, heads=2), rows(12, 20)),
    "affine": (lambda m: m.VectorQuantize(16, 32, affine_param=True, sync_affine_param=False), rows(12, 20, 12)),
    "affine-masked": (lambda m: m.VectorQuantize(16, 32, affine_param=True), masked()),
    "learnable": (lambda m: m.VectorQuantize(16, 32, learnable_codebook=True, ema_update=False), rows(12, 20)),
    "optimized": (
        lambda m: m.VectorQuantize(
            16,
            32,
            learnable_codebook=True,
            ema_update=False,
            in_place_codebook_optimizer=partial(torch.optim.SGD, lr=0.1),
        ),
        rows(12, 20),
    ),
    "optimized-v": (
        lambda m: m.VectorQuantize(
            16,
            32,
            learnable_codebook=True,
            ema_update=False,
            in_place_codebook_optimizer=partial(torch.optim.Adam, lr=0.1),
            sync_update_v=0.2,
        ),
        rows(12, 20),
    ),
    "manual-ema": (lambda m: m.VectorQuantize(16, 32, manual_ema_update=True), rows(12, 20)),
    "directional": (lambda m: m.VectorQuantize(16, 32, directional_reparam=True, threshold_ema_dead_code=2), rows(12, 20)),
    "orthogonal": (
        lambda m: m.VectorQuantize(
            16, 32, orthogonal_reg_weight=1.0, orthogonal_reg_active_codes_only=True, orthogonal_reg_max_codes=8
        ),
        rows(12, 20),
    ),
    "diversity": (lambda m: m.VectorQuantize(16, 32, codebook_diversity_loss_weight=0.1, stochastic_sample_codes=True), rows(12)),
    "image": (lambda m: m.VectorQuantize(16, 32, accept_image_fmap=True), maps()),
    "channels": (lambda m: m.VectorQuantize(16, 32, channel_last=False), lambda: [torch.randn(2, 16, 12)]),
    "frozen": (lambda m: m.VectorQuantize(16, 32, freeze_codebook=True), rows(12)),
    "accumulate": (
        lambda m: m.VectorQuantize(16, 32, manual_ema_update=True),
        lambda: [
            {"args": (torch.randn(2, 12, 16),), "accum_ema_update": True},
            {"args": (torch.randn(2, 9, 16),), "accum_ema_update": True},
        ],
    ),
    "weighted-ema": (
        lambda m: m.VectorQuantize(16, 32),
        lambda: [{"args": (torch.randn(2, 12, 16),), "ema_update_weight": torch.ones(1, 32)}, torch.randn(2, 12, 16)],
    ),
    "topk": (lambda m: m.VectorQuantize(16, 32), lambda: [{"args": (torch.randn(2, 12, 16),), "topk": 2}]),
    "given-indices": (
        lambda m: m.VectorQuantize(16, 32, commitment_use_cross_entropy_loss=True),
        lambda: [torch.randn(2, 12, 16), {"args": (torch.randn(2, 12, 16),), "indices": torch.randint(0, 32, (2, 12))}],
    ),
    "residual": (lambda m: m.ResidualVQ(dim=16, num_quantizers=3, codebook_size=16), rows(12, 20)),
    "residual-shared": (
        lambda m: m.ResidualVQ(
            dim=16, num_quantizers=3, codebook_size=16, shared_codebook=True, kmeans_init=True, kmeans_iters=2
        ),
        rows(24, 24),
    ),
    "residual-dropout": (
        lambda m: m.ResidualVQ(dim=16, num_quantizers=4, codebook_size=16, quantize_dropout=True, threshold_ema_dead_code=2),
        rows(12, 20),
    ),
    "residual-implicit": (
        lambda m: m.ResidualVQ(dim=16, num_quantizers=3, codebook_size=16, implicit_neural_codebook=True),
        rows(12),
    ),
    "residual-beam": (lambda m: m.ResidualVQ(dim=16, num_quantizers=3, codebook_size=16, beam_size=2), rows(12, 20)),
    "residual-stochastic": (
        lambda m: m.ResidualVQ(dim=16, num_quantizers=3, codebook_size=16, stochastic_sample_codes=True, shared_codebook=True),
        lambda: [{"args": (torch.randn(2, 12, 16),), "return_all_codes": True, "sample_codebook_temp": 0.1}],
    ),
    "residual-diveq": (lambda m: m.ResidualVQ(dim=16, num_quantizers=3, codebook_size=16, diveq=True), rows(12, 20)),
    "residual-grouped": (lambda m: m.GroupedResidualVQ(dim=16, groups=2, num_quantizers=2, codebook_size=16), rows(12, 20)),
    "random-projection": (
        lambda m: m.RandomProjectionQuantizer(dim=16, num_codebooks=3, codebook_dim=8, codebook_size=16),
        rows(12, 20),
    ),
    "sim": (lambda m: m.SimVQ(16, 32), rows(12, 20)),
    "sim-channels": (lambda m: m.SimVQ(16, 32, channel_first=True, rotation_trick=False), maps()),
    "residual-sim": (lambda m: m.ResidualSimVQ(dim=16, num_quantizers=3, codebook_size=16, quantize_dropout=True), rows(12, 20)),
    "fsq": (lambda m: m.FSQ([8, 5, 5]), rows(12, 20, dim=3)),
    "fsq-projected": (lambda m: m.FSQ([8, 5], dim=16, num_codebooks=2, noise_dropout=0.5, preserve_symmetry=True), rows(12)),
    "fsq-symmetric": (lambda m: m.FSQ([8, 5, 5], preserve_symmetry=True, noise_dropout=0.5), rows(12, dim=3)),
    "fsq-rotated": (lambda m: m.FSQ([8, 5], dim=16, orthogonal_rotation=True), rows(12)),
    "residual-fsq": (lambda m: m.ResidualFSQ(dim=16, levels=[8, 5, 5], num_quantizers=3, quantize_dropout=True), rows(12, 20)),
    "residual-fsq-clamped": (
        lambda m: m.ResidualFSQ(dim=3, levels=[8, 5, 5], num_quantizers=2, soft_clamp_input_value=2.0, bound_hard_clamp=False),
        rows(12, dim=3),
    ),
    "grouped-fsq": (lambda m: m.GroupedResidualFSQ(dim=16, groups=2, levels=[8, 5], num_quantizers=2), rows(12)),
    "fsp": (lambda m: m.FSP([8, 5], dim=16), rows(12, 20)),
    "fsp-quantized": (lambda m: m.FSP([8, 5], dim=16, quantize_rate=0.5, act_name="sigmoid"), rows(12)),
    "lfq": (lambda m: m.LFQ(codebook_size=256, dim=16), rows(12, 20)),
    "lfq-image": (lambda m: m.LFQ(codebook_size=256, dim=16, channel_first=True, spherical=True), maps()),
    "lfq-codebooks": (
        lambda m: m.LFQ(codebook_size=16, dim=16, num_codebooks=2, frac_per_sample_entropy=0.5, soft_clamp_input_value=3.0),
        masked(),
    ),
    "residual-lfq": (lambda m: m.ResidualLFQ(dim=16, codebook_size=16, num_quantizers=3, quantize_dropout=True), rows(12)),
    "grouped-lfq": (lambda m: m.GroupedResidualLFQ(dim=16, groups=2, codebook_size=16, num_quantizers=2), rows(12)),
    "latent": (lambda m: m.LatentQuantize([4, 4, 3], dim=16), maps()),
    "latent-optimized": (
        lambda m: m.LatentQuantize([4, 4], dim=16, in_place_codebook_optimizer=partial(torch.optim.SGD, lr=0.1)),
        maps(),
    ),
    "binary": (lambda m: m.BinaryMapper(bits=4), lambda: [torch.randn(2, 12, 4)] * 2),
    "hierarchical": (
        lambda m: m.HierarchicalVQ(dim=16, codebook_size=16, scales=(1, 2, 4), accept_image_fmap=True, kmeans_iters=2),
        lambda: [torch.randn(4, 16, 4, 4)] * 3,
    ),
    "hierarchical-dropout": (
        lambda m: m.HierarchicalVQ(dim=16, codebook_size=16, scales=(2, 4, 8), kmeans_init=False, nested_dropout=0.5),
        lambda: [torch.randn(4, 16, 8)] * 2,
    ),
    "codebook": (
        lambda m: importlib.import_module("vector_quantize_pytorch.vector_quantize_pytorch").Codebook(16, 32, kmeans_init=True),
        lambda: [torch.randn(2, 40, 16)] * 2,
    ),
    "evolved": (
        lambda m: m.EvoLFQ(nn.Linear(16, 16), nn.Linear(16, 16), dim=16, codebook_size=16, pop_size=4, generations=2),
        rows(12),
    ),
}


def decoder(m: Any, **options: Any) -> Any:
    """A small decoder of x-transformers."""
    wrapper = {key[1:]: options.pop(key) for key in list(options) if key.startswith("_")}
    layers = m.Decoder(**{"dim": 32, "depth": 2, "heads": 2, "attn_dim_head": 16, **options})
    return m.TransformerWrapper(num_tokens=32, max_seq_len=32, attn_layers=layers, **wrapper)


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "rotary": {"rotary_pos_emb": True},
    "xpos": {"rotary_pos_emb": True, "rotary_xpos": True},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 1},
    "relative": {"rel_pos_bias": True},
    "dynamic": {"dynamic_pos_bias": True},
    "polar": {"polar_pos_emb": True},
    "cope": {"attn_use_cope": True},
    "data-alibi": {"attn_data_dependent_alibi": True},
    "residual-attn": {"residual_attn": True},
    "macaron": {"macaron": True},
    "sandwich": {"sandwich_norm": True},
    "shift": {"shift_tokens": 1},
    "memory": {"_num_memory_tokens": 3},
    "mem-kv": {"attn_num_mem_kv": 2},
    "talking": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True},
    "gated": {"gate_residual": True},
    "glu": {"ff_glu": True, "ff_swish": True},
    "scalenorm": {"use_scalenorm": True},
    "rmsnorm": {"use_rmsnorm": True},
    "derf": {"use_derf": True},
    "tanh": {"use_dynamic_tanh": True},
    "recycling": {"_recycling": True},
    "looped": {"_looped": True, "pre_and_post_norm": True},
    "mixture": {"_mixture_of_softmax": True},
    "deep-embed": {"_ff_deep_embed": True},
    "dropout": {"layer_dropout": 0.5, "attn_dropout": 0.1, "ff_dropout": 0.1},
    "topk": {"attn_sparse_topk": 2},
    "selective": {"attn_selective": True},
    "flash": {"attn_flash": True},
    "sinusoidal": {"_scaled_sinu_pos_emb": True},
    "one-kv": {"attn_one_kv_head": True},
    "multi-latent": {"attn_use_latent_kv": True, "attn_dim_latent_kv": 16},
    "hyper": {"num_residual_streams": 2},
    "value-residual": {"add_value_residual": True},
    "cross-residual": {"attn_aggregated_residuals": True, "attn_aggregated_residual_kwargs": {"lora_rank": 8}},
    "lime": {"integrate_layers": True},
    "softclamp": {"attn_softclamp_logits": True, "softclamp_output": True},
    "cls": {"_use_cls_token": True},
    "xl": {"rel_pos_bias": True, "_max_mem_len": 8},
}


def wrap(name: str, *arguments: Any, **options: Any) -> Make:
    """A wrapper of x-transformers around the small decoder."""

    def make(m: Any) -> nn.Module:
        module = m
        for part in name.split(".")[:-1]:
            module = importlib.import_module(f"x_transformers.{part}")
        made: nn.Module = getattr(module, name.split(".")[-1])(decoder(m), *arguments, **options)
        return made

    return make


WRAPPED: dict[str, tuple[Make, Values]] = {
    "autoregressive": (lambda m: m.AutoregressiveWrapper(decoder(m)), tokens(12, 20)),
    "autoregressive-masked": (lambda m: m.AutoregressiveWrapper(decoder(m), mask_prob=0.2), tokens(12)),
    "non-autoregressive": (
        lambda m: m.NonAutoregressiveWrapper(
            m.TransformerWrapper(num_tokens=33, max_seq_len=16, attn_layers=m.Encoder(dim=32, depth=1, heads=2)),
            mask_id=32,
            self_cond=True,
        ),
        tokens(16, 16),
    ),
    "belief": (lambda m: m.BeliefStateWrapper(decoder(m), decoder(m)), tokens(12)),
    "xl-autoregressive": (
        lambda m: m.XLAutoregressiveWrapper(decoder(m, rel_pos_bias=True, _max_mem_len=16)),
        tokens(33, 65),
    ),
    "continuous": (
        lambda m: m.ContinuousTransformerWrapper(
            dim_in=8, dim_out=8, max_seq_len=32, attn_layers=m.Encoder(dim=32, depth=1, heads=2)
        ),
        rows(12, 20, dim=8),
    ),
    "vision": (
        lambda m: m.ViTransformerWrapper(
            image_size=32, patch_size=8, num_classes=5, num_register_tokens=2, attn_layers=m.Encoder(dim=32, depth=1, heads=2)
        ),
        lambda: [torch.randn(2, 3, 32, 32)] * 2,
    ),
    "encoder-decoder": (
        lambda m: m.XTransformer(
            dim=32,
            enc_num_tokens=32,
            enc_depth=1,
            enc_heads=2,
            enc_max_seq_len=16,
            dec_num_tokens=32,
            dec_depth=1,
            dec_heads=2,
            dec_max_seq_len=16,
        ),
        lambda: [(torch.randint(0, 32, (2, 12)), torch.randint(0, 32, (2, 9)))] * 2,
    ),
    "free": (
        lambda m: importlib.import_module("x_transformers.free_transformer").FreeTransformer(
            num_tokens=32, dim=32, dec_head_depth=1, dec_tail_depth=1, max_seq_len=32, heads=2, latent_bits=4
        ),
        tokens(12, 20),
    ),
    "vae": (
        lambda m: importlib.import_module("x_transformers.gpt_vae").GPTVAE(
            num_tokens=32, dim=32, depth=1, enc_depth=1, max_seq_len=32, heads=2
        ),
        tokens(12, 20),
    ),
    "autoencoder": (
        lambda m: importlib.import_module("x_transformers.continuous_autoencoder").ContinuousTransformerAutoencoder(
            dim=32, enc_depth=1, dec_depth=1, max_seq_len=32, dim_input=8, dim_latent=8, heads=2
        ),
        rows(12, 20, dim=8),
    ),
    "neo-mlp": (
        lambda m: m.NeoMLP(dim_in=5, dim_hidden=7, dim_out=5, depth=2, dim_model=32),
        lambda: [torch.randn(3, 5), torch.randn(2, 5)],
    ),
    "multi-input": (
        lambda m: m.MultiInputTransformerWrapper(
            num_tokens={"a": 32, "b": 32}, max_seq_len=32, attn_layers=m.Decoder(dim=32, depth=1, heads=2)
        ),
        lambda: [({"a": torch.randint(0, 32, (2, 12)), "b": torch.randint(0, 32, (2, 12))},)] * 2,
    ),
    "entropy-tokenizer": (
        lambda m: m.EntropyBasedTokenizer(decoder(m), entropy_threshold=1.0, max_token_size=4),
        tokens(12, 20),
    ),
    "universal": (
        lambda m: wrap("up_wrapper.UniversalPretrainWrapper", batch_size=2, seq_len=16, buffer_size=20)(m),
        lambda: [()] * 3,
    ),
    "next-latent": (wrap("next_latent_wrapper.NextLatentWrapper", dim=32), tokens(12, 20)),
    "lejepa": (wrap("gpt_lejepa.LatentAutoregressive", dim=32), tokens(12, 20)),
    "xm-latent": (wrap("xm_latent_decoder.XMLatentDecoder", dim=32), tokens(12, 20)),
    "recirculation": (wrap("recirculation.Recirculation", source_layer=1, destination_layer=0), tokens(12, 20)),
    "recirculation-learned": (
        wrap("recirculation.Recirculation", source_layer=1, destination_layer=0, use_learned=True),
        tokens(12, 20),
    ),
    "full-bandwidth": (
        lambda m: importlib.import_module("x_transformers.full_bandwidth").FullBandwidth(
            decoder(m, depth_scale_residual=True, _tie_embedding=True, _post_emb_norm=True)
        ),
        tokens(12, 20),
    ),
    "episodic": (wrap("xl_autoregressive_wrapper.EpisodicMemoryWrapper", episodic_mem_len=4), tokens(12, 20)),
    "test-time": (
        lambda m: m.XLAutoregressiveWrapper(decoder(m, _max_mem_len=16), episodic_mem_len=4, tbptt_steps=2),
        tokens(33, 65),
    ),
    "dpo": (
        lambda m: m.DPO(decoder(m)),
        lambda: [
            {
                "args": (torch.randint(0, 32, (2, 12)), torch.randint(0, 32, (2, 12))),
                "prompt_mask": torch.arange(12)[None].expand(2, -1) < 4,
            }
        ],
    ),
    "xval": (
        lambda m: m.XValTransformerWrapper(
            num_tokens=32, max_seq_len=32, numerical_token_id=3, attn_layers=m.Decoder(dim=32, depth=1, heads=2)
        ),
        lambda: [(torch.randint(0, 32, (2, 12)), torch.randn(2, 12))] * 2,
    ),
    "pool": (lambda m: importlib.import_module("x_transformers.x_transformers").AttentionPool(32, heads=2), rows(12, 20, dim=32)),
}

OTHERS: list[tuple[str, str, Make, Values]] = [
    ("rotary_embedding_torch", "plain", lambda m: m.RotaryEmbedding(16), lambda: [torch.arange(n) for n in (8, 12, 8)]),
    (
        "rotary_embedding_torch",
        "length",
        lambda m: m.RotaryEmbedding(16),
        lambda: [{"args": (torch.arange(n),), "seq_len": n} for n in (8, 12, 8)],
    ),
    (
        "rotary_embedding_torch",
        "offset",
        lambda m: m.RotaryEmbedding(16),
        lambda: [{"args": (torch.arange(4),), "seq_len": 4, "offset": n} for n in (0, 4)],
    ),
    (
        "rotary_embedding_torch",
        "pixel",
        lambda m: m.RotaryEmbedding(16, freqs_for="pixel"),
        lambda: [{"args": (torch.arange(8),), "seq_len": 8}],
    ),
    (
        "rotary_embedding_torch",
        "learned",
        lambda m: m.RotaryEmbedding(16, learned_freq=True),
        lambda: [{"args": (torch.arange(8),), "seq_len": 8}],
    ),
    (
        "rotary_embedding_torch",
        "xpos",
        lambda m: m.RotaryEmbedding(16, use_xpos=True),
        lambda: [{"args": (torch.arange(8),), "seq_len": 8}],
    ),
    ("local_attention", "plain", lambda m: m.LocalAttention(16, dim=16, causal=True), heads()),
    ("local_attention", "xpos", lambda m: m.LocalAttention(16, dim=16, causal=True, use_xpos=True), heads()),
    (
        "local_attention",
        "autopad",
        lambda m: m.LocalAttention(8, dim=16, autopad=True, exact_windowsize=True, shared_qk=True),
        heads(),
    ),
    (
        "local_attention",
        "mha",
        lambda m: importlib.import_module("local_attention.transformer").LocalMHA(dim=16, window_size=8, heads=2, causal=True),
        rows(16, 24),
    ),
    (
        "local_attention",
        "transformer",
        lambda m: importlib.import_module("local_attention.transformer").LocalTransformer(
            num_tokens=32, max_seq_len=64, dim=32, depth=2, heads=2, local_attn_window_size=8
        ),
        tokens(16, 24),
    ),
    (
        "local_attention",
        "bias",
        lambda m: importlib.import_module("local_attention.transformer").LocalTransformer(
            num_tokens=32,
            max_seq_len=64,
            dim=32,
            depth=1,
            heads=2,
            local_attn_window_size=8,
            use_dynamic_pos_bias=True,
            num_residual_streams=1,
        ),
        tokens(16, 24),
    ),
    ("ema_pytorch", "plain", lambda m: m.EMA(nn.Linear(16, 16)), rows(4, 6)),
    ("ema_pytorch", "lazy", lambda m: m.EMA(nn.Linear(16, 16), lazy_init_ema=True), rows(4, 6)),
    ("ema_pytorch", "karras", lambda m: m.KarrasEMA(nn.Linear(16, 16), gamma=2.0), rows(4, 6)),
    (
        "ema_pytorch",
        "wrapper",
        lambda m: importlib.import_module("ema_pytorch.ema_module_kwargs").EMAModuleWrapper(_TakesAverage()),
        rows(4, 6),
    ),
    (
        "hyper_connections",
        "plain",
        lambda m: m.HyperConnections(2, dim=16, branch=nn.Linear(16, 16)),
        lambda: [torch.randn(4, 6, 16)] * 2,
    ),
    (
        "hyper_connections",
        "fractions",
        lambda m: m.HyperConnections(2, dim=16, branch=nn.Linear(16, 16), num_fracs=2),
        lambda: [torch.randn(4, 6, 16)] * 2,
    ),
    (
        "hyper_connections",
        "manifold",
        lambda m: importlib.import_module(
            "hyper_connections.manifold_constrained_hyper_connections"
        ).ManifoldConstrainedHyperConnections(2, dim=16, branch=nn.Linear(16, 16)),
        lambda: [torch.randn(4, 6, 16)] * 2,
    ),
    (
        "hyper_connections",
        "manifold2",
        lambda m: importlib.import_module("hyper_connections.mHCv2").ManifoldConstrainedHyperConnections(
            2, dim=16, branch=nn.Linear(16, 16)
        ),
        lambda: [torch.randn(2, 6, 2, 16)] * 2,
    ),
    (
        "hyper_connections",
        "orthogonal",
        lambda m: importlib.import_module("hyper_connections.residuals").OrthogonalResidualUpdate(),
        lambda: [(torch.randn(2, 6, 16), torch.randn(2, 6, 16))] * 2,
    ),
    (
        "hyper_connections",
        "vit",
        lambda m: importlib.import_module("hyper_connections.vit").ViT(
            image_size=32, patch_size=8, num_classes=5, dim=32, depth=1, heads=2, mlp_dim=32
        ),
        lambda: [torch.randn(2, 3, 32, 32)] * 2,
    ),
]


class _TakesAverage(nn.Module):
    """A module that is handed its own moving average's output."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor, ema_output: torch.Tensor | None = None) -> torch.Tensor:
        """The output, compared with the average's where that is given."""
        out: torch.Tensor = self.linear(x)
        return out if ema_output is None else (out - ema_output).square().mean()


def cases() -> Iterator[Case]:
    """One case a way to use each class."""
    for name, (make, values) in QUANTIZERS.items():
        yield _case("vector_quantize_pytorch", name, make, values)
    for name, options in VARIANTS.items():
        yield _case("x_transformers", name, partial(decoder, **options), tokens(12, 20, 12))
    for name, (make, values) in WRAPPED.items():
        yield _case("x_transformers", name, make, values)
    for package, name, make, values in OTHERS:
        yield _case(package, name, make, values)


def _case(package: str, name: str, make: Make, values: Values) -> Case:
    return Case(f"{package}:{name}", partial(build, package, make, values))
