"""What the analysis knows of Python's and torch's own methods: which change their receiver, which hand out a part of it."""

from __future__ import annotations

from modelguard.observation import Kind

CONTAINER_MUTATORS = frozenset(
    (
        "append appendleft extend extendleft insert pop popleft popitem remove clear update setdefault add discard sort "
        "reverse rotate move_to_end difference_update intersection_update symmetric_difference_update subtract push put "
        "put_nowait get_nowait __setitem__ __delitem__ __iadd__ __ior__"
    ).split()
)
"""Methods that change a dict, list, set, deque, counter or queue."""

READING_MUTATORS = frozenset("pop popleft popitem get_nowait".split())
"""Mutators whose result is what the container held: taking it reads the state."""

AMBIGUOUS_MUTATORS = frozenset("push put put_nowait get_nowait add remove sort subtract rotate reverse insert pop".split())
"""Mutators that a tensor or an unknown library object may have under another meaning."""

ELEMENT_METHODS = frozenset("get setdefault pop popleft popitem values __getitem__".split())
"""Methods that hand out what a container holds."""

ITEM_METHODS = frozenset(("items",))
"""Methods that hand out pairs of a key and what the container holds under it."""

VIEW_METHODS = frozenset(
    (
        "view reshape flatten unflatten squeeze unsqueeze transpose permute t narrow select expand expand_as view_as "
        "reshape_as swapaxes swapdims movedim moveaxis unbind chunk split tensor_split detach diagonal unfold contiguous to "
        "type type_as float half double bfloat16 int long bool cpu cuda numpy squeeze_ unsqueeze_ detach_ transpose_ t_ real "
        "imag as_strided ravel requires_grad_ index_select_view hsplit vsplit dsplit untyped_storage storage"
    ).split()
)
"""Tensor methods whose result may share the receiver's memory."""

AMBIGUOUS_VIEWS = frozenset("split select expand flatten chunk t real imag".split())
"""View methods that something else may have under another meaning."""

CASTS = frozenset("to type type_as float half double bfloat16 int long bool cpu cuda contiguous".split())
"""View methods that return the receiver itself only when there is nothing to convert."""

VIEW_ATTRIBUTES = frozenset("data T mT H mH real imag".split())
"""Tensor attributes that share the tensor's memory."""

VIEW_FUNCTIONS = frozenset(
    (
        "reshape flatten squeeze unsqueeze transpose permute narrow select swapaxes movedim unbind chunk split tensor_split "
        "detach view_as_real view_as_complex real imag diagonal t as_strided broadcast_to unflatten"
    ).split()
)
"""Functions of torch whose result may share their first argument's memory."""

METADATA_ATTRIBUTES = frozenset("shape ndim dtype device layout is_cuda requires_grad itemsize nbytes names".split())
SIZE_ATTRIBUTES = frozenset("shape ndim nbytes".split())
METADATA_METHODS = frozenset(
    "size dim ndimension numel nelement stride element_size is_floating_point is_complex get_device data_ptr".split()
)
SIZE_METHODS = frozenset("size dim ndimension numel nelement stride".split())
TENSOR_METHODS = frozenset(
    (
        "abs add addcmul addmm argmax argmin argsort baddbmm bernoulli bmm ceil clamp clamp_max clamp_min clone cos cumprod "
        "cumsum div dot einsum eq erf exp expand expand_as flatten floor fmod gather ge gelu gt index_add index_copy "
        "index_fill index_select isnan isfinite le lerp log log2 log_softmax logical_and logical_not logical_or logsumexp lt "
        "masked_fill masked_scatter masked_select matmul mean mm mul multinomial mv ne neg new_empty new_full new_ones "
        "new_tensor new_zeros nonzero norm permute pow prod reciprocal relu repeat_interleave reshape roll rsqrt scatter "
        "scatter_add sigmoid sign sin softmax sqrt square squeeze std sub sum swapaxes tanh transpose tril triu true_divide "
        "unfold unsqueeze var view view_as where zeros_like contiguous detach max min any all amax amin argwhere bincount "
        "count_nonzero unique_consecutive median quantile"
    ).split()
)
"""Methods that, on a receiver nothing is known of, speak for a tensor."""

SWAPPING_METHODS = frozenset("set_ resize_ resize_as_".split())
"""Methods that give a tensor other memory."""

NOT_IN_PLACE = frozenset(
    (
        "requires_grad_ share_memory_ rename_ retain_grad_ register_ is_ type_ get_ detach_ squeeze_ unsqueeze_ t_ transpose_ "
        "swapdims_ swapaxes_"
    ).split()
)
"""Names that end in an underscore and write no memory."""

METADATA_IN_PLACE = frozenset("detach_ squeeze_ unsqueeze_ t_ transpose_ swapdims_ swapaxes_ rename_ as_strided_".split())
"""In-place methods that change what a tensor looks like, on the host, and leave its memory alone."""

MODULE_MOVERS = frozenset("to cuda cpu half float double bfloat16 type xpu to_empty".split())
"""Module methods that give every parameter other storage."""

MODULE_MODES = frozenset("train eval requires_grad_".split())

REGISTRATIONS = {
    "register_buffer": Kind.BUFFER,
    "register_parameter": Kind.PARAMETER,
    "register_module": Kind.MODULE,
    "add_module": Kind.MODULE,
}

HOOKS_BEFORE = frozenset("register_forward_pre_hook register_module_forward_pre_hook register_global_forward_pre_hook".split())
HOOKS_AFTER = frozenset("register_forward_hook register_module_forward_hook".split())
HOOK_REGISTRATIONS = (
    HOOKS_BEFORE
    | HOOKS_AFTER
    | frozenset(
        (
            "register_hook register_full_backward_hook register_full_backward_pre_hook register_backward_hook "
            "register_state_dict_post_hook register_state_dict_pre_hook register_load_state_dict_pre_hook "
            "register_load_state_dict_post_hook register_post_accumulate_grad_hook"
        ).split()
    )
)

MODULE_WALKS = {
    "modules": Kind.MODULE,
    "children": Kind.MODULE,
    "named_modules": Kind.MODULE,
    "named_children": Kind.MODULE,
    "parameters": Kind.PARAMETER,
    "named_parameters": Kind.PARAMETER,
    "buffers": Kind.BUFFER,
    "named_buffers": Kind.BUFFER,
}
"""Methods of a module that hand out its parts."""

MODULE_DICTS = {"_buffers": Kind.BUFFER, "_parameters": Kind.PARAMETER, "_modules": Kind.MODULE}
INSTANCE_DICTS = frozenset(("__dict__", *MODULE_DICTS))
"""Dictionaries of an object whose items are its attributes."""

MUTATING_FUNCTIONS = {
    "heapq.heappush": 0,
    "heapq.heappop": 0,
    "heapq.heapify": 0,
    "heapq.heapreplace": 0,
    "heapq.heappushpop": 0,
    "random.shuffle": 0,
    "bisect.insort": 0,
    "bisect.insort_left": 0,
    "bisect.insort_right": 0,
    "operator.setitem": 0,
    "operator.delitem": 0,
    "operator.iadd": 0,
    "numpy.random.shuffle": 0,
    "numpy.copyto": 0,
    "numpy.put": 0,
}
"""Functions that change one of their arguments, by its position."""

RUNNING_STATISTICS = {
    "torch.nn.functional.batch_norm": ((1, "running_mean"), (2, "running_var")),
    "torch.batch_norm": ((3, "running_mean"), (4, "running_var")),
    "torch.nn.functional.instance_norm": ((1, "running_mean"), (2, "running_var")),
    "torch.instance_norm": ((3, "running_mean"), (4, "running_var")),
    "torch.native_batch_norm": ((3, "running_mean"), (4, "running_var")),
    "torch.nn.functional.embedding": (),
}
"""Functional operators that write buffers handed to them: (position, keyword) of each."""

MEMOISERS = frozenset(
    (
        "functools.lru_cache functools.cache cachetools.cached cachetools.cachedmethod joblib.memory.cache methodtools.lru_cache"
    ).split()
)
CACHED_PROPERTIES = frozenset(
    (
        "functools.cached_property cached_property.cached_property django.utils.functional.cached_property "
        "torch.utils._pytree.cached_property"
    ).split()
)

CAPTURE_PREDICATES = frozenset(
    (
        "torch.compiler.is_compiling torch.compiler.is_dynamo_compiling torch.compiler.is_exporting "
        "torch._dynamo.is_compiling torch._dynamo.external_utils.is_compiling torch._utils.is_compiling "
        "torch.cuda.is_current_stream_capturing torch._C._cuda_isCurrentStreamCapturing is_torchdynamo_compiling is_compiling "
        "is_dynamo_compiling is_current_stream_capturing is_torchdynamo_exporting"
    ).split()
)
"""True while a compiler or a graph capture looks at the code: what runs only when they are false never gets captured."""

SCRIPT_PREDICATES = frozenset(
    (
        "torch.jit.is_scripting torch.jit.is_tracing torch.onnx.is_in_onnx_export torch.jit._script.is_scripting "
        "torch._C._get_tracing_state torch._jit_internal.is_scripting is_scripting is_tracing is_in_onnx_export "
        "is_jit_tracing is_fx_tracing is_torch_fx_proxy torch.fx._symbolic_trace.is_fx_tracing"
    ).split()
)
"""True only under TorchScript or an ONNX export: what runs only when they are true is not run by an engine."""

TENSOR_PACKAGES = frozenset("torch einops einx".split())
TENSORLESS_TORCH = frozenset(
    (
        "torch.Size torch.device torch.dtype torch.finfo torch.iinfo torch.is_tensor torch.is_floating_point torch.is_complex "
        "torch.get_default_dtype torch.is_autocast_enabled torch.is_grad_enabled torch.get_autocast_gpu_dtype "
        "torch.get_autocast_dtype torch.promote_types torch.result_type torch.numel torch.Generator torch.broadcast_shapes "
        "torch.seed torch.initial_seed "
        "torch.equal torch.allclose torch.no_grad torch.enable_grad torch.inference_mode torch.autocast "
        "torch.set_grad_enabled torch.typename"
    ).split()
)
"""Names of torch whose result is no tensor."""

TUPLES_OF_TENSORS = frozenset(
    "unbind chunk split tensor_split meshgrid broadcast_tensors max min topk sort svd qr unique where nonzero".split()
)

MODULE_ROOTS = frozenset(
    (
        "torch.nn.Module torch.nn.modules.module.Module torch.nn.modules.Module lightning.LightningModule "
        "lightning.pytorch.LightningModule pytorch_lightning.LightningModule pytorch_lightning.core.LightningModule "
        "pl.LightningModule torch.jit.ScriptModule torch.jit._script.ScriptModule fairseq.models.BaseFairseqModel "
        "mmcv.runner.BaseModule mmengine.model.BaseModule transformers.PreTrainedModel "
        "transformers.modeling_utils.PreTrainedModel diffusers.ModelMixin diffusers.models.modeling_utils.ModelMixin "
        "vllm.model_executor.custom_op.CustomOp sglang.srt.custom_op.CustomOp"
    ).split()
)
"""Classes known to be modules even where their source is not at hand."""

NOT_MODULES_OF_NN = frozenset("Parameter Buffer UninitializedParameter UninitializedBuffer".split())

NN_ATTRIBUTES: dict[str, dict[str, int]] = {
    "Linear": {"weight": Kind.PARAMETER, "bias": Kind.PARAMETER},
    "Bilinear": {"weight": Kind.PARAMETER, "bias": Kind.PARAMETER},
    "Conv": {"weight": Kind.PARAMETER, "bias": Kind.PARAMETER, "padding": Kind.TUPLE, "stride": Kind.TUPLE},
    "Embedding": {"weight": Kind.PARAMETER},
    "BatchNorm": {
        "weight": Kind.PARAMETER,
        "bias": Kind.PARAMETER,
        "running_mean": Kind.BUFFER,
        "running_var": Kind.BUFFER,
        "num_batches_tracked": Kind.BUFFER,
        "momentum": Kind.NUMBER,
        "eps": Kind.NUMBER,
    },
    "InstanceNorm": {
        "weight": Kind.PARAMETER,
        "bias": Kind.PARAMETER,
        "running_mean": Kind.BUFFER,
        "running_var": Kind.BUFFER,
        "num_batches_tracked": Kind.BUFFER,
    },
    "SyncBatchNorm": {
        "weight": Kind.PARAMETER,
        "bias": Kind.PARAMETER,
        "running_mean": Kind.BUFFER,
        "running_var": Kind.BUFFER,
        "num_batches_tracked": Kind.BUFFER,
    },
    "GroupNorm": {"weight": Kind.PARAMETER, "bias": Kind.PARAMETER},
    "LayerNorm": {"weight": Kind.PARAMETER, "bias": Kind.PARAMETER},
    "RMSNorm": {"weight": Kind.PARAMETER},
    "PReLU": {"weight": Kind.PARAMETER},
    "MultiheadAttention": {
        "in_proj_weight": Kind.PARAMETER,
        "in_proj_bias": Kind.PARAMETER,
        "bias_k": Kind.PARAMETER,
        "bias_v": Kind.PARAMETER,
    },
}
"""What the classes of torch.nn declare, by the beginning of their names, where torch's source is not read."""


def nn_attribute(class_name: str, attribute: str) -> int:
    """The kind of an attribute of a `torch.nn` class, 0 where it is not known."""
    for prefix, attributes in NN_ATTRIBUTES.items():
        if class_name.startswith((prefix, "Lazy" + prefix)):
            return attributes.get(attribute, 0)
    return 0


SYNCHRONISING_METHODS = frozenset("item tolist cpu numpy __bool__ __int__ __float__ __index__".split())
"""Methods by which the host reads a tensor's data."""

SYNCHRONISING_FUNCTIONS = frozenset("torch.equal torch.allclose torch.is_nonzero torch.save".split())

SYNCHRONISERS = frozenset(
    (
        "torch.cuda.synchronize torch.xpu.synchronize torch.mps.synchronize torch.accelerator.synchronize "
        "torch.cuda.current_stream.synchronize torch.distributed.barrier"
    ).split()
)
"""Functions that wait for the device."""

DATA_SIZED_FUNCTIONS = frozenset(
    "nonzero argwhere masked_select unique unique_consecutive where bincount repeat_interleave one_hot".split()
)
"""Functions of torch whose result is as large as a tensor's data says; some only with certain arguments."""

DATA_SIZED_METHODS = frozenset("nonzero argwhere masked_select unique unique_consecutive bincount repeat_interleave".split())

PYTHON_DATA_FUNCTIONS = frozenset("tensor as_tensor asarray".split())
"""Functions of torch that copy what Python holds."""

CPU_FACTORIES = frozenset(
    (
        "torch.tensor torch.as_tensor torch.asarray torch.from_numpy torch.zeros torch.ones torch.empty torch.full torch.arange "
        "torch.linspace torch.logspace torch.rand torch.randn torch.randint torch.randperm torch.eye torch.tril_indices "
        "torch.triu_indices torch.hann_window torch.hamming_window"
    ).split()
)
"""Functions that make a tensor in host memory where no device is named."""

LOG_METHODS = frozenset(
    (
        "debug info warning warn error exception critical log success trace debug_once info_once warning_once warn_once "
        "error_once"
    ).split()
)
"""Methods of loggers; what has them is one if it is called so."""

OUTPUTS = frozenset(
    (
        "builtins.print builtins.input builtins.breakpoint pprint.pprint pprint.pp warnings.warn warnings.warn_explicit "
        "sys.stdout.write sys.stdout.flush sys.stderr.write sys.stderr.flush traceback.print_exc traceback.print_stack "
        "pdb.set_trace rich.print wandb.log tqdm.tqdm.write logging.log logging.debug logging.info logging.warning logging.warn "
        "logging.error logging.exception logging.critical"
    ).split()
)
"""Functions that print, log or stop for somebody to look."""

CLOCKS = frozenset(
    (
        "time.time time.time_ns time.perf_counter time.perf_counter_ns time.monotonic time.monotonic_ns time.process_time "
        "time.process_time_ns time.thread_time time.thread_time_ns time.sleep time.localtime time.gmtime time.strftime "
        "time.ctime timeit.default_timer datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today "
        "datetime.date.today uuid.uuid1 uuid.uuid4 os.urandom"
    ).split()
)
"""Functions that answer differently each time."""

GENERATORS = frozenset(
    "random.Random random.SystemRandom numpy.random.default_rng numpy.random.RandomState numpy.random.Generator".split()
)
"""Makers of sources of randomness that are not torch's."""

DISABLERS = frozenset(
    (
        "torch.compiler.disable torch._dynamo.disable torch._dynamo.eval_frame.disable torch._dynamo.decorators.disable "
        "torch._disable_dynamo torch._dynamo.disallow_in_graph torch.compiler.disallow_in_graph"
    ).split()
)
"""Decorators that keep a function out of Dynamo's graphs."""

SCRIPTERS = frozenset("torch.jit.script torch.jit.trace torch.jit.load torch.jit.freeze torch.jit.optimize_for_inference".split())
"""Functions that make a TorchScript module."""

OPAQUE_MODULES = frozenset("RNN LSTM GRU DataParallel DistributedDataParallel".split())
"""Modules of torch that no graph can hold."""

MASKING = frozenset(
    (
        "eq ne lt le gt ge less less_equal greater greater_equal not_equal isnan isinf isfinite isin isclose logical_and "
        "logical_or logical_not logical_xor bool"
    ).split()
)
"""Functions and methods whose result is a tensor of truth values."""
