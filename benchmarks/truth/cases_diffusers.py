"""Models of diffusers, with all sizes shrunk and inputs of the first shapes that each accepts."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import torch
from torch import nn

from truth.cases import Case
from truth.record import Call

PARAMETER_LIMIT = 100_000_000
TEXT = 32
"""The width of every embedding that a model is handed."""
TEXT_LENGTH = 7

SIZES: dict[str, Any] = {
    "attention_head_dim": 16,
    "head_dim": 16,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "num_heads": 2,
    "n_heads": 2,
    "n_kv_heads": 2,
    "hidden_size": 32,
    "dim": 32,
    "inner_dim": 32,
    "ffn_dim": 64,
    "intermediate_size": 64,
    "d_model": 32,
    "d_ff": 64,
    "freq_dim": 32,
    "norm_num_groups": 4,
    "sample_size": 16,
    "sample_height": 16,
    "sample_width": 16,
    "sample_frames": 4,
    "ch": 32,
    "channels": 32,
    "conditioning_channels": 3,
    "base_channels": 16,
    "base_dim": 8,
    "decoder_base_dim": 8,
    "max_sequence_length": 16,
    "time_embed_dim": 32,
    "num_frames": 2,
    "mlp_ratio": 2,
    "resolution": 32,
    "encoder_dim": 8,
    "decoder_dim": 32,
    "vocab_size": 64,
    "codebook_size": 63,
    "block_out_channels": 32,
    "num_vq_embeddings": 32,
    "axes_dims_rope": (4, 6, 6),
    "axes_dim": (4, 6, 6),
    "axes_dims": (4, 6, 6),
    "rope_axes_dim": (4, 6, 6),
    "rope_dim_list": (4, 6, 6),
    "axes_dim_rope": (4, 6, 6),
    "rope_max_seq_len": 32,
    "timestep_guidance_channels": 32,
    "encoder_hidden_channels": 16,
    "decoder_hidden_channels": 16,
    "motion_num_attention_heads": 2,
    "num_refiner_layers": 1,
    "num_query_heads": 2,
}

WIDTHS = re.compile(
    r"(joint_attention|cross_attention|text|text_embed|caption|caption_projection|condition|conditioning|embedding|image|pooled_projection|encoder_hid"
    r"|text_states|text_feat|context|conditional|cond_embed|clip_img|llm|clip_text_pooled|cap_feat|time_proj|text_hidden|siglip_feat"
    r"|pooled_text|cond_token|encoder|source|target|model|text_encoder|text_encoder_1|langauge_model|in_visual|in_text|in_text2|cross_attention_input"
    r"|time|t5|text_states_2|text_embed_2|visual_embed|timbre_hidden|audio_acoustic_hidden)_(dim|dim_\d|channels|size|in_channels|in_dim|embed_dim|states_dim)"
    r"|encoder_hidden_size|text_embed_dim|text_dim2|cross_attention_hidden_size|clip_text_pooled_in_channels|projection_class_embeddings_input_dim"
)

OVERRIDES: dict[str, dict[str, Any]] = {
    "UNet2DModel": {
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        "block_out_channels": (16, 32),
    },
    "UNet2DConditionModel": {
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        "block_out_channels": (16, 32),
        "attention_head_dim": 8,
    },
    "ControlNetModel": {
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "block_out_channels": (16, 32),
        "attention_head_dim": 8,
        "conditioning_embedding_out_channels": (16, 32),
    },
    "AutoencoderKL": {
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
        "block_out_channels": (16, 32),
    },
    "AutoencoderKLTemporalDecoder": {"down_block_types": ("DownEncoderBlock2D",) * 2, "block_out_channels": (32, 64)},
    "VQModel": {
        "block_out_channels": (16, 32),
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
    },
    "Transformer2DModel": {"in_channels": 16, "cross_attention_dim": TEXT},
    "TransformerTemporalModel": {"in_channels": 16},
    "AutoencoderKLWan": {
        "base_dim": 4,
        "z_dim": 4,
        "dim_mult": [1, 1, 1, 1],
        "num_res_blocks": 1,
        "temperal_downsample": [False, True, True],
    },
    "AutoencoderKLQwenImage": {
        "base_dim": 4,
        "z_dim": 4,
        "dim_mult": [1, 1, 1, 1],
        "num_res_blocks": 1,
        "temperal_downsample": [False, True, True],
    },
    "AutoencoderTiny": {
        "encoder_block_out_channels": (16, 16),
        "decoder_block_out_channels": (16, 16),
        "num_encoder_blocks": (1, 1),
        "num_decoder_blocks": (1, 1),
    },
    "AutoencoderDC": {
        "encoder_block_out_channels": (16, 16),
        "decoder_block_out_channels": (16, 16),
        "encoder_layers_per_block": (1, 1),
        "decoder_layers_per_block": (1, 1),
        "encoder_qkv_multiscales": ((), (5,)),
        "decoder_qkv_multiscales": ((), (5,)),
        "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
        "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
        "latent_channels": 4,
        "attention_head_dim": 8,
    },
    "AutoencoderKLHunyuanImage": {
        "in_channels": 3,
        "out_channels": 3,
        "latent_channels": 4,
        "block_out_channels": (32, 64),
        "layers_per_block": 1,
        "spatial_compression_ratio": 2,
        "sample_size": 32,
        "scaling_factor": 1.0,
    },
    "AutoencoderKLCosmos": {
        "encoder_block_out_channels": (8, 8, 8, 8),
        "decode_block_out_channels": (8, 8, 8, 8),
        "attention_resolutions": (8,),
        "resolution": 64,
        "num_layers": 2,
        "patch_size": 4,
    },
    "AutoencoderKLMochi": {
        "encoder_block_out_channels": (32, 32, 32, 32),
        "decoder_block_out_channels": (32, 32, 32, 32),
        "latent_channels": 4,
        "layers_per_block": (1, 1, 1, 1, 1),
        "latents_mean": [0.0] * 4,
        "latents_std": [1.0] * 4,
    },
    "MotionAdapter": {"block_out_channels": (16, 32), "motion_norm_num_groups": 4},
    "SanaTransformer2DModel": {
        "num_cross_attention_heads": 2,
        "cross_attention_head_dim": 16,
        "cross_attention_dim": 32,
        "caption_channels": TEXT,
    },
    "FluxTransformer2DModel": {"in_channels": 4, "num_layers": 1, "num_single_layers": 1, "guidance_embeds": False},
    "WanTransformer3DModel": {"in_channels": 4, "out_channels": 4},
    "LTXVideoTransformer3DModel": {"in_channels": 4, "out_channels": 4},
    "StableAudioDiTModel": {
        "cross_attention_input_dim": TEXT,
        "num_key_value_attention_heads": 2,
        "global_states_input_dim": TEXT,
        "cross_attention_dim": 32,
        "time_proj_dim": 8,
        "in_channels": 4,
        "sample_size": 8,
    },
    "PriorTransformer": {"num_embeddings": TEXT_LENGTH, "additional_embeddings": 4, "embedding_dim": 32},
    "UVit2DModel": {
        "hidden_size": 32,
        "cond_embed_dim": TEXT,
        "micro_cond_encode_dim": 2,
        "micro_cond_embed_dim": 10,
        "block_num_heads": 2,
        "in_channels": 32,
        "block_out_channels": 32,
    },
    "StableCascadeUNet": {
        "block_out_channels": (32, 32),
        "num_attention_heads": (2, 2),
        "down_num_layers_per_block": (1, 1),
        "up_num_layers_per_block": (1, 1),
        "in_channels": 4,
        "out_channels": 4,
        "clip_text_pooled_in_channels": TEXT,
        "conditioning_dim": 32,
    },
    "T2IAdapter": {"channels": [16, 16, 16, 16], "num_res_blocks": 1},
    "UNet1DModel": {"sample_size": 32},
    "AutoencoderKLHunyuanImageRefiner": {"block_out_channels": (32, 32, 32, 32, 32), "layers_per_block": 1, "latent_channels": 8},
    "AutoencoderKLHunyuanVideo15": {"block_out_channels": (32, 32, 32, 32, 32), "layers_per_block": 1, "latent_channels": 8},
    "WanVACETransformer3DModel": {"vace_layers": [0, 1], "in_channels": 4, "out_channels": 4, "vace_in_channels": 4},
    "Kandinsky3UNet": {"block_out_channels": (32, 64, 64, 64)},
    "LTX2VideoDiffusionDecoderModel": {"stage_channels": (32, 16)},
    "SD3ControlNetModel": {"num_layers": 1},
}


def shrink(kind: type) -> dict[str, Any]:
    """Arguments that make a class small."""
    changes: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind.__init__).parameters.items():
        default = parameter.default
        if name == "self" or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        small = _small(name, default)
        if small is not None:
            changes[name] = small
    changes.update(OVERRIDES.get(kind.__name__, {}))
    return changes


def _small(name: str, default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return SIZES.get(name, TEXT if WIDTHS.fullmatch(name) else 4)
    if isinstance(default, (bool, str)) or default is None:
        return None
    if name in SIZES:
        return _like(default, SIZES[name])
    if isinstance(default, int):
        if WIDTHS.fullmatch(name):
            return TEXT
        if re.search(r"(^|_)(num|n)_.*(layers|blocks)$|^(num_)?layers|depth|_layers$|layers_per_block", name):
            return min(default, 2)
        return 16 if default > 256 and not re.search(r"time|theta|max|rate|length|vocab", name) else None
    if (
        isinstance(default, (list, tuple))
        and default
        and all(isinstance(item, int) and not isinstance(item, bool) for item in default)
    ):
        if re.search(r"channels|dims|widths|hidden", name) and max(default) > 16:
            return type(default)(16 for _ in default)
        if re.search(r"layers|num_res|depth|blocks$", name) and max(default) < 60:
            return type(default)(1 for _ in default)
        if re.search(r"heads", name):
            return type(default)(2 for _ in default)
    return None


def _like(default: Any, small: Any) -> Any:
    if isinstance(default, (list, tuple)) and not isinstance(small, (list, tuple)):
        return (
            type(default)(small if item > small else item for item in default)
            if all(isinstance(item, int) for item in default)
            else None
        )
    if isinstance(small, (list, tuple)):
        return type(default)(small[: len(default)]) if isinstance(default, (list, tuple)) else None
    return min(default, small) if isinstance(default, (int, float)) else small


def _channels(model: nn.Module) -> int:
    for name in ("in_channels", "in_dim", "latent_channels", "channels", "embedding_dim", "input_dims"):
        value = getattr(model.config, name, None)
        if isinstance(value, int):
            return value
    return 3


def shapes(model: nn.Module, size: int) -> list[Callable[[], torch.Tensor]]:
    """Shapes that the main input may have."""
    channels = _channels(model)
    found = [
        (2, channels, size, size),
        (2, channels, 5, size, size),
        (2, channels, 1, size, size),
        (2, 5, channels, size, size),
        (2, channels, 4, size, size),
        (2, channels, 9, 2 * size, 2 * size),
        (2, channels, 5, 4 * size, 4 * size),
        (1, 3, 7, 2 * size, 2 * size),
        (2, channels, 4 * size, 4 * size),
        (2, size, channels),
        (2, channels, size),
        (2, size, TEXT),
        (2, TEXT),
        (2, channels, 16 * size),
        (2, 1, 2048 * (size // 16)),
    ]
    return [partial(torch.randn, shape) for shape in found]


FIXED: dict[str, Callable[[], Any]] = {
    "encoder_hidden_states": lambda: torch.randn(2, TEXT_LENGTH, TEXT),
    "encoder_hidden_states_image": lambda: None,
    "text_hidden_states": lambda: torch.randn(2, TEXT_LENGTH, TEXT),
    "encoder_hidden_states_1": lambda: torch.randn(2, TEXT_LENGTH, TEXT),
    "pooled_projections": lambda: torch.randn(2, TEXT),
    "pooled_text_emb": lambda: torch.randn(2, TEXT),
    "proj_embedding": lambda: torch.randn(2, TEXT),
    "global_hidden_states": lambda: torch.randn(2, 1, TEXT),
    "timestep": lambda: torch.tensor([3, 5]),
    "r_timestep": lambda: torch.tensor([1, 2]),
    "timestep_r": lambda: torch.tensor([1, 2]),
    "timestep_ratio": lambda: torch.tensor([0.3, 0.5]),
    "clip_text_pooled": lambda: torch.randn(2, 1, TEXT),
    "guidance": lambda: torch.ones(2),
    "encoder_attention_mask": lambda: torch.ones(2, TEXT_LENGTH),
    "encoder_mask": lambda: torch.ones(2, TEXT_LENGTH),
    "encoder_hidden_states_mask": lambda: torch.ones(2, TEXT_LENGTH, dtype=torch.bool),
    "attention_mask": lambda: torch.ones(2, TEXT_LENGTH),
    "txt_ids": lambda: torch.zeros(TEXT_LENGTH, 3),
    "class_labels": lambda: torch.tensor([1, 2]),
    "controlnet_cond": lambda: torch.randn(2, 3, 32, 32),
    "added_time_ids": lambda: torch.randn(2, 3),
    "micro_conds": lambda: torch.randn(2, 5),
    "input_ids": lambda: torch.randint(0, 16, (2, 8, 8)),
    "return_dict": lambda: False,
}


def candidates(model: nn.Module, size: int) -> Iterator[dict[str, Any]]:
    """Sets of arguments that the forward may accept, by shape of the main one."""
    parameters = dict(inspect.signature(model.forward).parameters)
    names = [
        name
        for name, parameter in parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and (
            parameter.default is parameter.empty
            or name in ("timestep", "encoder_hidden_states", "pooled_projections", "txt_ids", "img_ids", "encoder_attention_mask")
        )
    ]
    if not names:
        return
    main = next((name for name in ("hidden_states", "sample", "x") if name in names), names[0])
    optional = [name for name in names if parameters[name].default is not parameters[name].empty]
    unknown = [name for name in names if name != main and name not in FIXED and name not in ("img_ids", "encoder_attention_mask")]
    if unknown:
        raise ValueError(f"no value known for {unknown}")
    for shape, dropped in itertools.product(shapes(model, size), _subsets(optional)):
        value = shape()
        arguments = {main: value}
        for name in names:
            if name != main and name not in dropped:
                tokens = value.shape[1]
                arguments[name] = torch.zeros(tokens, 3) if name == "img_ids" else FIXED[name]()
        yield arguments


def _subsets(names: list[str]) -> list[set[str]]:
    return [set(), *({name} for name in names), set(names)]


@cache
def fitting(kind: type) -> int:
    """The number of the first set of arguments with which the forward runs."""
    changes = shrink(kind)
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in kind(**changes).parameters())
    if count > PARAMETER_LIMIT:
        raise ValueError(f"{count} parameters")
    model = kind(**changes).eval()
    errors: list[str] = []
    for index, arguments in enumerate(candidates(model, 16)):
        try:
            with torch.no_grad():
                model(**arguments)
        except Exception as error:
            shape = tuple(next(iter(arguments.values())).shape)
            errors.append(f"{shape}: {type(error).__name__}: {str(error)[:100]}")
            continue
        return index
    raise ValueError(" | ".join(errors[::4][:6]))


def build(name: str) -> tuple[nn.Module, list[Call]]:
    """The model with two calls in one size and one in a larger."""
    import diffusers

    kind = getattr(diffusers, name)
    index = fitting(kind)
    model = kind(**shrink(kind))
    arguments = [next(itertools.islice(candidates(model, size), index, None)) for size in (16, 16, 32)]
    return model, [((), values) for values in arguments]


def cases() -> Iterator[Case]:
    """One case a model class."""
    import diffusers
    from diffusers.models.modeling_utils import ModelMixin

    for name in sorted(dir(diffusers)):
        try:
            kind = getattr(diffusers, name)
        except Exception:
            continue
        if inspect.isclass(kind) and issubclass(kind, ModelMixin) and kind is not ModelMixin and "forward" in vars(kind):
            yield Case(f"diffusers:{name}", partial(build, name))
