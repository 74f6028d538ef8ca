"""Every architecture of transformers, from its configuration class with all sizes shrunk."""

from __future__ import annotations

import contextlib
import copy
import inspect
import re
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import islice
from typing import Any, NamedTuple

import torch
from torch import nn

from truth.cases import Case
from truth.record import Call

PARAMETER_LIMIT = 80_000_000
FIT_SECONDS = 30

_NAMES_BY_SIZE: dict[int, str] = {
    1: ("n_group topk_group tubelet_size temporal_patch_size mamba_n_groups n_groups"),
    2: (
        "index_n_heads num_experts_per_tok moe_k moe_topk num_frames decoder_n_points encoder_n_points "
        "num_codebooks linear_num_key_heads"
    ),
    4: (
        "index_topk num_experts num_local_experts n_routed_experts moe_num_experts num_feature_levels "
        "num_query_tokens type_vocab_size sliding_window attention_window block_size chunk_size "
        "attention_chunk_size linear_num_value_heads"
    ),
    6: ("num_queries"),
    8: ("patch_size d_state state_size mamba_d_state num_buckets mamba_n_heads mamba_num_heads"),
    16: (
        "head_dim attention_head_dim d_kv kv_channels qk_rope_head_dim qk_nope_head_dim v_head_dim kv_lora_rank "
        "linear_key_head_dim linear_value_head_dim mamba_d_head mamba_head_dim"
    ),
    32: (
        "q_lora_rank index_head_dim image_size max_source_positions max_target_positions moe_intermediate_size "
        "shared_expert_intermediate_size projection_dim codebook_size"
    ),
    64: (
        "max_position_embeddings n_positions n_ctx intermediate_size d_ff ffn_dim n_inner encoder_ffn_dim "
        "decoder_ffn_dim mlp_dim dim_feedforward"
    ),
    80: ("num_mel_bins"),
    256: ("vocab_size"),
    1024: ("max_2d_position_embeddings"),
}
SIZES = {name: size for size, names in _NAMES_BY_SIZE.items() for name in names.split()}
"""What a size becomes, where the name says enough."""

PATTERNS: list[tuple[str, Any]] = [
    (r"(num_)?(key_value|kv)_heads|num_key_value_heads|num_kv_heads|n_kv_heads|multi_query_group_num", 2),
    (r"(.*_)?(num_)?(n_)?(attention_)?heads?|n_head|.*attention_heads|num_heads", 4),
    (r"first_k_dense_replace", 1),
    (r"(?!num_feat_extract)((.*_)?(num_)?(hidden_|encoder_|decoder_)?(n_)?layers?|n_layer|depth|.*_layers|.*_depth)", 2),
    (
        r"hidden_size|d_model|n_embd|dim|embed_dim|emb_dim|hidden_dim|.*_hidden_size|.*_embed_dim|.*_hidden_dim|embedding_size|.*_width",
        64,
    ),
]


Kept = frozenset[str]
"""Sizes that are left as the class has them, by their path in the configuration."""

SECTIONS = "+mrope_section"
"""Among those: the rotary sections are spelled out, since the default ones fit large heads only."""


def shrink(kind: type, kept: Kept = frozenset(), changed: set[str] | None = None) -> Any:
    """A configuration of a class with small sizes; `changed` gathers the paths of those that were made small."""
    return _shrink(kind(), kept, "", set() if changed is None else changed)


def _shrink(value: Any, kept: Kept, prefix: str, changed: set[str]) -> Any:
    kind = type(value)
    if str(kind.model_type).startswith("timm"):
        value = copy.deepcopy(value)
        value.backbone = "resnet18"
        return value
    plain = kind()
    changes: dict[str, Any] = {}
    names = [name for name in vars(value) if not name.startswith("_")]
    for name in names:
        path = prefix + name
        item = getattr(value, name)
        if hasattr(item, "to_dict") and hasattr(type(item), "model_type"):
            changes[name] = _shrink(item, kept, path + ".", changed)
        elif path not in kept and (small := _small(name, item)) is not None and small != item:
            changes[name] = small
            changed.add(path)
        elif prefix and item != getattr(plain, name, item):
            changes[name] = item
    if "qk_rope_head_dim" in names:
        changes.pop("head_dim", None)
    if {"expand", "num_heads", "head_dim", "hidden_size"} <= changes.keys() | {"expand"} & set(names):
        changes["num_heads"] = changes["hidden_size"] * value.expand // changes["head_dim"]
    if SECTIONS in kept and "rope_parameters" in names:
        changes["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
    _few_layers(value, changes, prefix, kept)
    accepted = set(inspect.signature(kind.__init__).parameters) | set(getattr(kind, "__dataclass_fields__", {})) | set(names)
    config = kind(**{name: item for name, item in changes.items() if name in accepted})
    _fix_tokens(config)
    return config


def _few_layers(default: Any, changes: dict[str, Any], prefix: str, kept: Kept) -> None:
    """One layer of each type that there is, where a configuration lists types."""
    for listing in ("layer_types", "layers_block_type", "mlp_layer_types"):
        types = getattr(default, listing, None)
        if not isinstance(types, (list, tuple)) or not types or prefix + listing in kept:
            continue
        distinct = list(dict.fromkeys(types))
        count = max(2, len(distinct))
        changes[listing] = (distinct * count)[:count]
        for name in ("num_hidden_layers", "n_layer", "num_layers"):
            if name in changes:
                changes[name] = count


def _small(name: str, value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        if name in SIZES:
            return min(value, SIZES[name])
        return next((min(value, small) for pattern, small in PATTERNS if re.fullmatch(pattern, name)), None)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return _small_list(name, list(value))
    if isinstance(value, dict) and isinstance(sections := value.get("mrope_section"), list):
        return {**value, "mrope_section": [2, 3, 3] if len(sections) == 3 else [2] * 4}
    return None


def _small_list(name: str, value: list[int]) -> list[int] | None:
    if re.search(r"depths|layers|blocks", name) and max(value) < 100 and "index" not in name and "out" not in name:
        return [1] * len(value)
    if re.search(r"hidden_sizes|dims|channels|widths|embed", name) and max(value) > 64:
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


class Inputs:
    """Values for the arguments of a forward, by name, in one size."""

    def __init__(self, model: nn.Module, batch: int, length: int, image_tokens: int) -> None:
        self.config: Any = model.config
        self.model = model
        self.batch = batch
        self.length = length + image_tokens
        self.image_tokens = image_tokens

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
        ids = torch.randint(3, max(4, min(vocabulary, 100) - 1), (self.batch, self.length))
        if self.image_tokens:
            names = ("image_token_id", "image_token_index", "media_placeholder_token_id", "video_token_id", "audio_token_id")
            ids[:, : self.image_tokens] = self.number(*names, default=0)
        return ids

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
    "grid_thw": lambda inputs: torch.tensor([[1, 4, 4]] * inputs.batch),
    "image_grid_thw": lambda inputs: torch.tensor([[1, 4, 4]] * inputs.batch),
    "spatial_shapes": lambda inputs: torch.tensor([[4, 4]] * inputs.batch),
    "pixel_attention_mask": lambda inputs: torch.ones(inputs.batch, 16, dtype=torch.long),
    "visual_feats": lambda inputs: torch.randn(inputs.batch, 3, inputs.number("visual_feat_dim", default=64)),
    "visual_pos": lambda inputs: torch.rand(inputs.batch, 3, inputs.number("visual_pos_dim", default=4)),
    "padding_mask": lambda inputs: torch.ones(inputs.batch, 1600 + 320 * inputs.length, dtype=torch.long),
    "future_values": lambda inputs: torch.randn(inputs.batch, inputs.number("prediction_length", default=16)),
    "query_embeds": lambda inputs: torch.randn(inputs.batch, 4, inputs.number("hidden_size", default=64)),
    "position_ids": lambda inputs: torch.arange(inputs.length)[None].expand(inputs.batch, -1),
}


def _patch_rows(inputs: Inputs) -> torch.Tensor:
    patch = inputs.number("patch_size", default=8)
    depth = inputs.number("temporal_patch_size", default=1)
    return torch.randn(16 * inputs.batch, inputs.number("num_channels", "in_channels", default=3) * depth * patch**2)


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
        _patch_rows,
        lambda inputs: _patch_rows(inputs).reshape(inputs.batch, 16, -1),
        lambda inputs: torch.randn(inputs.batch, 3, 256, 192),
    ],
    "hidden_states": [
        _patch_rows,
        lambda inputs: inputs.image(),
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
    ("input_ids", "pixel_values", "attention_mask", "image_grid_thw"),
    ("pixel_values", "pixel_attention_mask", "spatial_shapes"),
    ("input_ids", "pixel_values", "pixel_attention_mask", "spatial_shapes"),
    ("input_ids", "input_features", "attention_mask"),
    ("input_ids", "input_values"),
    ("input_ids", "visual_feats", "visual_pos"),
    ("input_ids", "bbox"),
    ("input_ids", "bbox", "pixel_values"),
    ("input_ids", "bbox", "decoder_input_ids"),
    ("past_values", "future_values"),
    ("pixel_values", "decoder_input_ids"),
    ("input_features", "decoder_input_ids"),
    ("input_values",),
    ("pixel_values",),
]


def candidates(model: nn.Module, batch: int, length: int, image_tokens: int = 0) -> Iterator[dict[str, Any]]:
    """Sets of arguments that the forward may accept, the likeliest first."""
    parameters = inspect.signature(model.forward).parameters
    required = [
        name
        for name, parameter in parameters.items()
        if parameter.default is parameter.empty and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    main = getattr(model, "main_input_name", None)
    inputs = Inputs(model, batch, length, image_tokens)
    seen = set()
    for extra in SETS:
        names = {*required, *(name for name in (main, *extra) if isinstance(name, str) and name in parameters)}
        if not names <= set(FACTORIES) or frozenset(names) in seen or not names:
            continue
        seen.add(frozenset(names))
        base = {name: inputs.make(name) for name in names}
        yield base
        for name in names & set(ALTERNATIVES):
            for alternative in ALTERNATIVES[name]:
                yield {**base, name: alternative(inputs)}


class Fit(NamedTuple):
    """How a model class can be built and called."""

    kept: Kept
    arguments: int
    image_tokens: int


class Misfit(Exception):
    """Why it cannot."""


@cache
def fit(config_kind: type, model_kind: type) -> Fit:
    """The first way that works: all sizes small, or all but one, or the sizes of heads and vectors as they are."""
    changed: set[str] = set()
    with contextlib.suppress(Exception):
        shrink(config_kind, changed=changed)
    groups = [
        frozenset(path for path in changed if re.search(pattern, path))
        for pattern in (r"dim|size|width", r"head", r"layer|depth")
    ]
    deadline = time.monotonic() + FIT_SECONDS
    complaint = ""
    for kept in (frozenset[str](), frozenset({SECTIONS}), *(frozenset({path}) for path in sorted(changed)), *groups):
        try:
            return Fit(kept, *_callable_with(config_kind, model_kind, kept))
        except Exception as error:
            complaint = complaint or f"{type(error).__name__}: {str(error)[:400]}"
        if time.monotonic() > deadline:
            break
    raise Misfit(complaint)


def _callable_with(config_kind: type, model_kind: type, kept: Kept) -> tuple[int, int]:
    """The number of the first set of arguments with which the forward runs, and the image tokens that the text must hold."""
    config = shrink(config_kind, kept)
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in model_kind(config).parameters())
    if count > PARAMETER_LIMIT:
        raise Misfit(f"{count} parameters")
    model = model_kind(shrink(config_kind, kept)).eval()
    errors: list[str] = []
    for index in range(100):
        image_tokens = 0
        for _ in range(2):
            arguments = next(islice(candidates(model, 2, 8, image_tokens), index, None), None)
            if arguments is None:
                raise Misfit("cannot be called: " + (" | ".join(errors[:4]) or "no arguments known"))
            try:
                with torch.no_grad():
                    model(**arguments)
            except Exception as error:
                errors.append(f"{sorted(arguments)}: {type(error).__name__}: {str(error)[:120]}")
                wanted = re.search(r"tokens.*features:? *(\d+)", str(error))
                if wanted is None or image_tokens:
                    break
                image_tokens = int(wanted[1]) // 2
                continue
            return index, image_tokens
    raise Misfit("cannot be called")


def build(config_name: str, model_name: str) -> tuple[nn.Module, list[Call]]:
    """The model with calls in three sizes, and one that asks for all hidden states."""
    import transformers

    config_kind, model_kind = getattr(transformers, config_name), getattr(transformers, model_name)
    kept, index, image_tokens = fit(config_kind, model_kind)
    model = model_kind(shrink(config_kind, kept))
    calls: list[Call] = []
    for batch, length in ((2, 8), (2, 12), (1, 5)):
        arguments = next(islice(candidates(model, batch, length, image_tokens), index, None))
        if "labels" in inspect.signature(model.forward).parameters and "ForSequenceClassification" in model_name:
            arguments["labels"] = torch.zeros(batch, dtype=torch.long)
        calls.append(((), arguments))
    calls.append(((), {**calls[0][1], "output_hidden_states": True, "output_attentions": True}))
    return model, calls


ROTARY: dict[str, dict[str, Any]] = {
    "dynamic": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    "longrope": {
        "rope_type": "longrope",
        "rope_theta": 10000.0,
        "short_factor": [1.0] * 8,
        "long_factor": [2.0] * 8,
        "factor": 4.0,
        "original_max_position_embeddings": 16,
    },
    "yarn": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16},
}
"""Rotary embeddings whose frequencies follow the length of what they are given."""


def build_rotary(config_name: str, model_name: str, rotary: str) -> tuple[nn.Module, list[Call]]:
    """A text model whose sequences grow past the length it was made for, and shrink again."""
    import transformers

    config_kind, model_kind = getattr(transformers, config_name), getattr(transformers, model_name)
    config = shrink(config_kind)
    model = model_kind(config_kind(**{**config.to_dict(), "rope_parameters": ROTARY[rotary], "head_dim": 16}))
    return model, [((), {"input_ids": torch.randint(3, 50, (2, length))}) for length in (8, 80, 120, 8)]


def cases(widely: bool) -> Iterator[Case]:
    """One case for each class that an architecture offers; not widely: the base model and one with a head."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    _allow_timm()
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
    for family in ("Llama", "Phi3", "Qwen3", "Gemma"):
        for rotary in ("longrope",) if family == "Phi3" else ROTARY:
            yield Case(f"transformers:{family}:{rotary}", partial(build_rotary, f"{family}Config", f"{family}Model", rotary))


def _allow_timm() -> None:
    """Lets backbones from timm be used although torchvision, which none of them needs, is only a stand-in."""
    from transformers import utils
    from transformers.utils import import_utils

    for module in (utils, import_utils):
        module.is_timm_available = lambda: True
    import_utils.BACKENDS_MAPPING["timm"] = (lambda: True, "")


def _rank(mapping_name: str) -> int:
    order = ("MODEL_MAPPING", "MODEL_FOR_SEQUENCE_CLASSIFICATION", "MODEL_FOR_CAUSAL_LM", "MODEL_FOR_SEQ_TO_SEQ")
    return next((index for index, prefix in enumerate(order) if mapping_name.startswith(prefix)), len(order))
