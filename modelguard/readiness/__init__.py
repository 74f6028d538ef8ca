"""Whether a model becomes one graph, and what is in the way: for tests and servers; `modelguard ready` has it as a command."""

from modelguard.readiness.predicates import codegen_ready, leftover_modules

__all__ = ["codegen_ready", "leftover_modules"]
