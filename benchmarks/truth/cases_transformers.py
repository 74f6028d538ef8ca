"""Every architecture of transformers, from its configuration class with all sizes shrunk."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any

import torch
from torch import nn

from truth.cases import Case
from truth.record import Call

PARAMETER_LIMIT = 80_000_000

SIZES: dict[str, Any] = {
    "head_dim": 16,
    "attention_head_dim": 16,
    "d_kv": 16,
    "kv_channels": 16,
    "qk_rope_head_dim": 16,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "kv_lora_rank": 16,
    "q_lora_rank": 32,
    "index_head_dim": 32,
    "index_n_heads": 2,
    "index_topk": 4,
    "num_experts": 4,
    "num_local_experts": 4,
    "n_routed_experts": 4,
    "moe_num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_k": 2,
    "moe_topk": 2,
    "n_group": 1,
    "topk_group": 1,
    "image_size": 32,
    "patch_size": 8,
    "num_frames": 2,
    "tubelet_size": 1,
    "temporal_patch_size": 1,
    "max_position_embeddings": 64,
    "n_positions": 64,
    "n_ctx": 64,
    "max_source_positions": 32,
    "max_target_positions": 32,
    "vocab_size": 256,
    "d_state": 8,
    "state_size": 8,
    "mamba_d_state": 8,
    "num_queries": 6,
    "num_feature_levels": 4,
    "num_query_tokens": 4,
    "type_vocab_size": 4,
    "sliding_window": 4,
    "attention_window": 4,
    "block_size": 4,
    "chunk_size": 4,
    "attention_chunk_size": 4,
    "num_mel_bins": 80,
    "decoder_n_points": 2,
    "encoder_n_points": 2,
    "intermediate_size": 64,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "d_ff": 64,
    "ffn_dim": 64,
    "n_inner": 64,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "mlp_dim": 64,
    "dim_feedforward": 64,
    "projection_dim": 32,
    "num_codebooks": 2,
    "codebook_size": 32,
    "num_buckets": 8,
    "max_2d_position_embeddings": 1024,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "mamba_n_heads": 8,
    "mamba_num_heads": 8,
    "mamba_d_head": 16,
    "mamba_head_dim": 16,
    "mamba_n_groups": 1,
    "n_groups": 1,
}
"""What a size becomes, where the name says enough."""

PATTERNS: list[tuple[str, Any]] = [
    (r"(num_)?(key_value|kv)_heads|num_key_value_heads|num_kv_heads|n_kv_heads|multi_query_group_num", 2),
    (r"(.*_)?(num_)?(n_)?(attention_)?heads?|n_head|.*attention_heads|num_heads", 4),
    (r"first_k_dense_replace", 1),
    (r"(.*_)?(num_)?(hidden_|encoder_|decoder_)?(n_)?layers?|n_layer|depth|.*_layers|.*_depth", 2),
    (
        r"hidden_size|d_model|n_embd|dim|embed_dim|emb_dim|hidden_dim|.*_hidden_size|.*_embed_dim|.*_hidden_dim|embedding_size|.*_width",
        64,
    ),
]


def shrink(kind: type, level: int = 0) -> Any:
    """A configuration of a class with small sizes; higher levels change less, for classes that refuse."""
    default = kind()
    changes: dict[str, Any] = {}
    names = [name for name in vars(default) if not name.startswith("_")]
    layers = 2
    types = getattr(default, "layer_types", None)
    if isinstance(types, (list, tuple)) and types:
        distinct = list(dict.fromkeys(types))
        layers = max(2, len(distinct))
        changes["layer_types"] = (distinct * layers)[:layers]
    for name in names:
        value = getattr(default, name)
        small = _small(name, value, level)
        if small is not None:
            changes[name] = small
    for name in ("num_hidden_layers", "n_layer", "num_layers"):
        if name in changes and "layer_types" in changes:
            changes[name] = layers
    accepted = set(inspect.signature(kind.__init__).parameters) | set(getattr(kind, "__dataclass_fields__", {})) | set(names)
    changes = {name: value for name, value in changes.items() if name in accepted}
    config = kind(**changes)
    _fix_tokens(config)
    return config


def _small(name: str, value: Any, level: int) -> Any:
    if hasattr(value, "to_dict") and hasattr(type(value), "model_type"):
        return shrink(type(value), level)
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        if level >= 2 and not re.fullmatch(PATTERNS[3][0], name):
            return None
        if name in SIZES:
            return min(value, SIZES[name]) if level == 0 or name != "head_dim" else None
        for pattern, small in PATTERNS:
            if re.fullmatch(pattern, name):
                return min(value, small)
        return None
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return _small_list(name, list(value), level)
    return None


def _small_list(name: str, value: list[int], level: int) -> list[int] | None:
    if re.search(r"depths|layers|blocks", name) and max(value) < 100 and "index" not in name and "out" not in name:
        return [1] * len(value)
    if level == 0 and re.search(r"hidden_sizes|dims|channels|widths|embed", name) and max(value) > 64:
        return [max(16, item // (max(value) // 64) // 16 * 16) for item in value]
    return None


def _fix_tokens(config: Any) -> None:
    vocabulary = getattr(config, "vocab_size", None)
    if not isinstance(vocabulary, int):
        return
    if getattr(config, "pad_token_id", 0) is None:
        config.pad_token_id = 0
    for index, name in enumerate(sorted(name for name in vars(config) if name.endswith(("_token_id", "_token_index", "_id")))):
        value = getattr(config, name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= vocabulary:
            setattr(config, name, vocabulary - 1 - index)


@cache
def fitting_level(config_kind: type, model_kind: type) -> int:
    """The first level of shrinking that the model accepts and that makes it small."""
    errors = []
    for level in range(3):
        try:
            config = shrink(config_kind, level)
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in model_kind(config).parameters())
            if count > PARAMETER_LIMIT:
                raise ValueError(f"{count} parameters")
            model_kind(shrink(config_kind, level))
        except Exception as error:
            errors.append(f"{type(error).__name__}: {str(error)[:200]}")
            continue
        return level
    raise ValueError("cannot be built: " + " | ".join(errors))


class Inputs:
    """Values for the arguments of a forward, by name, in one size."""

    def __init__(self, model: nn.Module, batch: int, length: int) -> None:
        self.config: Any = model.config
        self.model = model
        self.batch = batch
        self.length = length

    def text(self) -> Any:
        """The part of the configuration that describes text."""
        try:
            return self.config.get_text_config()
        except Exception:
            return self.config

    def number(self, *names: str, default: int) -> int:
        """The first of the named sizes that the configuration, or one inside it, has."""
        parts = [self.config, *(getattr(self.config, name, None) for name in getattr(self.config, "sub_configs", {}))]
        for name in names:
            for part in parts:
                value = getattr(part, name, None)
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
                if isinstance(value, (list, tuple)) and value and isinstance(value[0], int):
                    return value[0]
        return default

    def ids(self) -> torch.Tensor:
        """Token ids that are no special ones, if the vocabulary allows."""
        vocabulary = getattr(self.text(), "vocab_size", None)
        vocabulary = vocabulary if isinstance(vocabulary, int) and vocabulary > 4 else 100
        return torch.randint(3, max(4, min(vocabulary, 100) - 1), (self.batch, self.length))

    def image(self) -> torch.Tensor:
        """Pixels in the configured size."""
        size = self.number("image_size", default=64)
        return torch.randn(self.batch, self.number("num_channels", "in_channels", default=3), size, size)

    def make(self, name: str) -> Any:
        """A value for the named argument; KeyError for names that are not known."""
        return FACTORIES[name](self)


def _video(inputs: Inputs) -> torch.Tensor:
    frames = inputs.number("num_frames", "frames_per_clip", default=2)
    return inputs.image().unsqueeze(1).repeat(1, frames, 1, 1, 1)


def _features(inputs: Inputs) -> torch.Tensor:
    bins = inputs.number("num_mel_bins", "feature_size", "input_feat_per_channel", "n_mels", "num_channels", default=80)
    frames = inputs.number("max_source_positions", default=32) * 2
    return torch.randn(inputs.batch, bins, frames)


FACTORIES: dict[str, Callable[[Inputs], Any]] = {
    "input_ids": Inputs.ids,
    "decoder_input_ids": Inputs.ids,
    "attention_mask": lambda inputs: torch.ones(inputs.batch, inputs.length, dtype=torch.long),
    "token_type_ids": lambda inputs: torch.zeros(inputs.batch, inputs.length, dtype=torch.long),
    "pixel_values": Inputs.image,
    "pixel_values_videos": _video,
    "video": _video,
    "pixel_mask": lambda inputs: torch.ones(inputs.batch, *inputs.image().shape[-2:], dtype=torch.long),
    "input_values": lambda inputs: torch.randn(inputs.batch, 1600 + 320 * inputs.length),
    "input_features": _features,
    "bbox": lambda inputs: torch.zeros(inputs.batch, inputs.length, 4, dtype=torch.long) + torch.tensor([1, 1, 5, 5]),
    "bool_masked_pos": lambda inputs: torch.zeros(inputs.batch, _patches(inputs), dtype=torch.bool),
    "past_values": lambda inputs: torch.randn(inputs.batch, inputs.number("context_length", "prediction_length", default=16)),
    "inputs_embeds": lambda inputs: torch.randn(inputs.batch, inputs.length, inputs.number("hidden_size", "d_model", default=64)),
    "hidden_states": lambda inputs: torch.randn(inputs.batch, inputs.length, inputs.number("hidden_size", "d_model", default=64)),
    "inputs": Inputs.ids,
    "audio_codes": lambda inputs: torch.randint(0, 16, (inputs.batch, inputs.number("num_codebooks", default=2), inputs.length)),
    "labels": lambda inputs: torch.zeros(inputs.batch, dtype=torch.long),
    "position_ids": lambda inputs: torch.arange(inputs.length)[None].expand(inputs.batch, -1),
}


def _patches(inputs: Inputs) -> int:
    return (inputs.number("image_size", default=64) // inputs.number("patch_size", default=8)) ** 2


ALTERNATIVES: dict[str, list[Callable[[Inputs], Any]]] = {
    "input_values": [
        lambda inputs: torch.randn(inputs.batch, 1, 1600 + 320 * inputs.length),
        lambda inputs: torch.randn(
            inputs.batch, inputs.number("max_length", default=64), inputs.number("num_mel_bins", default=80)
        ),
        lambda inputs: torch.randn(inputs.batch, inputs.length, inputs.number("num_mel_bins", default=80)),
    ],
    "input_features": [
        lambda inputs: _features(inputs).transpose(1, 2).contiguous(),
        lambda inputs: torch.randn(inputs.batch, 1, 64, 64),
        lambda inputs: torch.randn(inputs.batch, 160, inputs.number("feature_projection_input_dim", default=160)),
    ],
    "pixel_values": [
        lambda inputs: torch.randn(inputs.batch, 3, 64, 64),
        lambda inputs: torch.randn(inputs.batch, 3, 224, 224),
        _video,
        lambda inputs: torch.randn(inputs.batch, 2, 3, 64, 64),
    ],
    "past_values": [
        lambda inputs: torch.randn(
            inputs.batch, inputs.number("context_length", default=16), inputs.number("num_input_channels", default=1)
        ),
    ],
}

SETS: list[tuple[str, ...]] = [
    (),
    ("attention_mask",),
    ("input_ids",),
    ("input_ids", "attention_mask"),
    ("decoder_input_ids",),
    ("input_ids", "decoder_input_ids"),
    ("input_ids", "pixel_values", "attention_mask"),
    ("input_ids", "bbox"),
    ("input_ids", "bbox", "pixel_values"),
    ("pixel_values", "decoder_input_ids"),
    ("input_features", "decoder_input_ids"),
    ("input_values",),
    ("pixel_values",),
]


def candidates(model: nn.Module, batch: int, length: int) -> Iterator[dict[str, Any]]:
    """Sets of arguments that the forward may accept, the likeliest first."""
    parameters = inspect.signature(model.forward).parameters
    required = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    main = getattr(model, "main_input_name", None)
    inputs = Inputs(model, batch, length)
    seen = set()
    for extra in SETS:
        names = {*required, *(name for name in (main, *extra) if name in parameters)}
        if not names <= set(FACTORIES) or frozenset(names) in seen or not names:
            continue
        seen.add(frozenset(names))
        base = {name: inputs.make(name) for name in names}
        yield base
        for name in names & set(ALTERNATIVES):
            for alternative in ALTERNATIVES[name]:
                yield {**base, name: alternative(inputs)}


@cache
def fitting_arguments(config_kind: type, model_kind: type) -> int:
    """The number of the first set of arguments with which the forward runs."""
    model = model_kind(shrink(config_kind, fitting_level(config_kind, model_kind))).eval()
    errors = []
    for index, arguments in enumerate(candidates(model, 2, 8)):
        try:
            with torch.no_grad():
                model(**arguments)
        except Exception as error:
            errors.append(f"{sorted(arguments)}: {type(error).__name__}: {str(error)[:120]}")
            continue
        return index
    raise ValueError("cannot be called: " + (" | ".join(errors[:4]) or "no arguments known"))


def build(config_name: str, model_name: str) -> tuple[nn.Module, list[Call]]:
    """The model with calls in three sizes, and one that asks for all hidden states."""
    import transformers

    config_kind, model_kind = getattr(transformers, config_name), getattr(transformers, model_name)
    index = fitting_arguments(config_kind, model_kind)
    model = model_kind(shrink(config_kind, fitting_level(config_kind, model_kind)))
    calls: list[Call] = []
    for batch, length in ((2, 8), (2, 12), (1, 5)):
        arguments = next(islice(candidates(model, batch, length), index, None))
        if "SequenceClassification" in model_name and "labels" in inspect.signature(model.forward).parameters:
            arguments["labels"] = torch.zeros(batch, dtype=torch.long)
        calls.append(((), arguments))
    calls.append(((), {**calls[0][1], "output_hidden_states": True, "output_attentions": True}))
    return model, calls


def cases(widely: bool) -> Iterator[Case]:
    """One case for each class that an architecture offers; not widely: the base model and one with a head."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    by_type: dict[str, dict[str, str]] = {}
    for mapping_name in sorted(vars(modeling_auto)):
        if not mapping_name.endswith("_MAPPING_NAMES") or not mapping_name.startswith("MODEL_"):
            continue
        for model_type, names in vars(modeling_auto)[mapping_name].items():
            for name in (names,) if isinstance(names, str) else names:
                by_type.setdefault(model_type, {}).setdefault(name, mapping_name)
    for model_type in CONFIG_MAPPING_NAMES:
        offered = by_type.get(model_type, {})
        chosen = sorted(offered, key=lambda name: (_rank(offered[name]), name))
        for name in chosen if widely else chosen[:2]:
            yield Case(f"transformers:{model_type}:{name}", partial(build, CONFIG_MAPPING_NAMES[model_type], name))


def _rank(mapping_name: str) -> int:
    order = ("MODEL_MAPPING", "MODEL_FOR_SEQUENCE_CLASSIFICATION", "MODEL_FOR_CAUSAL_LM", "MODEL_FOR_SEQ_TO_SEQ")
    return next((index for index, prefix in enumerate(order) if mapping_name.startswith(prefix)), len(order))
