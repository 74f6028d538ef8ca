"""Any `torch.fx` graph as plain Python that runs without `nn.Module` overhead: cut, generate, bind, keep."""

from modelguard.codegen.artifact import Artifact, load_artifact, save_artifact
from modelguard.codegen.emit import generate_execution_code, generate_execution_code_with_name
from modelguard.codegen.errors import ArtifactError, CodegenError, SplitError, TraceError
from modelguard.codegen.execute import compile_execution_fn
from modelguard.codegen.piecewise import Generated, Piecewise, generate
from modelguard.codegen.split import UncutWarning, absent_ops, split_graph
from modelguard.codegen.trace import Traced, trace

__all__ = [
    "Artifact",
    "ArtifactError",
    "CodegenError",
    "Generated",
    "Piecewise",
    "SplitError",
    "TraceError",
    "Traced",
    "UncutWarning",
    "absent_ops",
    "compile_execution_fn",
    "generate",
    "generate_execution_code",
    "generate_execution_code_with_name",
    "load_artifact",
    "save_artifact",
    "split_graph",
    "trace",
]
