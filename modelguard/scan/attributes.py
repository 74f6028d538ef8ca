"""What the attributes of a class are: joined from every place, in the class or a base, that binds or declares them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container

from modelguard.observation import Kind
from modelguard.scan.project import Project, cut_offset, parse_lines
from modelguard.scan.symbols import ClassInfo, ExternalClass, FunctionName, GlobalName, Method, SourceFile
from modelguard.scan.values import NOTHING, ClassObject, External, Value, join, join_all

ANY_NAME = "*"
"""The name under which attributes are kept that are declared by a name only known at run time."""

CONFIG_NAME = re.compile(r"(?:^|_)(?:config|cfg|args|hparams|hp|opts?|options)$")
_CONFIG_CLASS = re.compile(r"(?:Config|Configuration|Args|Arguments|Options|HParams|Namespace|SimpleNamespace)$")

_ANNOTATIONS = {
    "int": Kind.NUMBER,
    "float": Kind.NUMBER,
    "complex": Kind.NUMBER,
    "bool": Kind.BOOL,
    "str": Kind.STRING,
    "bytes": Kind.STRING,
    "None": Kind.NONE,
    "dict": Kind.DICT,
    "Dict": Kind.DICT,
    "Mapping": Kind.DICT,
    "MutableMapping": Kind.DICT,
    "OrderedDict": Kind.DICT,
    "defaultdict": Kind.GROWING_DICT | Kind.DICT,
    "DefaultDict": Kind.GROWING_DICT | Kind.DICT,
    "Counter": Kind.DICT,
    "list": Kind.LIST,
    "List": Kind.LIST,
    "MutableSequence": Kind.LIST,
    "set": Kind.SET,
    "Set": Kind.SET,
    "deque": Kind.DEQUE,
    "Deque": Kind.DEQUE,
    "tuple": Kind.TUPLE,
    "Tuple": Kind.TUPLE,
    "Callable": Kind.FUNCTION,
    "Tensor": Kind.TENSOR,
    "FloatTensor": Kind.TENSOR,
    "LongTensor": Kind.TENSOR,
    "IntTensor": Kind.TENSOR,
    "BoolTensor": Kind.TENSOR,
    "BFloat16Tensor": Kind.TENSOR,
    "HalfTensor": Kind.TENSOR,
    "Size": Kind.TUPLE,
    "Module": Kind.MODULE,
    "ModuleList": Kind.MODULE,
    "ModuleDict": Kind.MODULE,
    "Sequential": Kind.MODULE,
    "Parameter": Kind.PARAMETER,
    "dtype": Kind.STRING,
    "device": Kind.STRING,
}
_WRAPPERS = frozenset("Optional Union Annotated ClassVar Final Required NotRequired".split())


def _fits(name: str, pattern: str) -> bool:
    """Whether a name may be one that is only known in part: `level_0` and `level_*`."""
    start, _, end = pattern.partition(ANY_NAME)
    return name.startswith(start) and name.endswith(end.rpartition(ANY_NAME)[2])


def config_class(name: str) -> bool:
    """Whether a class of that name holds settings."""
    return _CONFIG_CLASS.search(name) is not None


def instance_of(info: ClassInfo | ExternalClass) -> Value:
    """A value that is an instance of a class, as far as its kind goes."""
    kinds = Kind.MODULE if info.is_module else Kind.OBJECT
    if config_class(info.name):
        kinds |= Kind.CONFIG
    names = (
        {item.dotted.rpartition(".")[2] for item in info.mro if isinstance(item, ExternalClass)}
        if isinstance(info, ClassInfo)
        else {info.name}
    )
    for name in names & _ANNOTATIONS.keys() - {"Module", "Tensor"}:
        kinds |= _ANNOTATIONS[name] & (Kind.CONTAINER | Kind.PARAMETER | Kind.TUPLE)
    if kinds & Kind.CONTAINER:
        kinds &= ~Kind.OBJECT
    return Value(kinds, classes=(info,))


class Attributes:
    """Declared attributes, by class and name, worked out when first asked for.

    `stored_by` says what a method binds on its first parameter; `evaluate` what an expression at a file's top level or in a class
    body means, given what to add to its line numbers.
    """

    def __init__(
        self,
        project: Project,
        stored_by: Callable[[Method], dict[str, Value]],
        evaluate: Callable[[SourceFile, ast.expr, int, ClassInfo | None], Value],
    ) -> None:
        self._project = project
        self._stored_by = stored_by
        self._evaluate = evaluate
        self.unfinished = 0
        """Methods being walked for what they bind."""
        self._partial: dict[tuple[int, str], Value] = {}
        self._known: dict[tuple[int, str], Value] = {}
        self._patterns: dict[int, tuple[int, list[str]]] = {}
        self._class_level: dict[tuple[str, str, str], Value] = {}

    def take_over(self, other: Attributes, gone: Container[int], path: str) -> None:
        """Take in what another worked out, but for the classes of the file `path`, which are those with an id in `gone`."""
        self._known = {key: value for key, value in other._known.items() if key[0] not in gone}
        self._class_level = {key: value for key, value in other._class_level.items() if key[0] != path}

    def of(self, info: ClassInfo | ExternalClass, name: str) -> Value:
        """What attribute `name` of an instance is, without paths; `NOTHING` where nothing declares it."""
        key = (id(info), name)
        # While a method is walked for what it binds, what is known of its class is not all there is to know.
        known = self._known if not self.unfinished else self._partial
        found = known.get(key)
        if found is None:
            known[key] = NOTHING
            found = self._work_out(info, name)
            known[key] = found
        return found

    def finished(self) -> None:
        """A method was walked to its end: what was worked out meanwhile is out of date."""
        self.unfinished -= 1
        self._partial.clear()

    def _work_out(self, info: ClassInfo | ExternalClass, name: str) -> Value:
        if isinstance(info, ExternalClass):
            kind = info.known_attribute(name)
            return Value(kind) if kind else NOTHING
        if name == "training" and info.is_module:
            return Value(Kind.BOOL)
        result = NOTHING
        dynamic = NOTHING
        for item in info.ancestry():
            if name in item.facts.attributes:
                result = join(result, self.class_level(item, name))
            for facts in item.binding(name):
                stored = self._stored_by(Method(item, facts))
                if name in stored:
                    result = join(result, stored[name])
                for pattern in self._patterns_of(stored):
                    value = stored[pattern]
                    if pattern != name and _fits(name, pattern):
                        if pattern == ANY_NAME:
                            dynamic = join(dynamic, value)
                        else:
                            result = join(result, value)
        kind = info.known_attribute(name)
        if kind:
            result = join(result, Value(kind))
        if result is NOTHING and dynamic is not NOTHING:
            result = Value(dynamic.kinds | Kind.UNKNOWN)
        if result.kinds == Kind.NOTHING or result.kinds & Kind.UNKNOWN:
            if CONFIG_NAME.search(name) and not result.kinds & (Kind.DICT | Kind.MODULE | Kind.LIST):
                result = join(result, Value(Kind.CONFIG | Kind.OBJECT))
        return result

    def _patterns_of(self, stored: dict[str, Value]) -> list[str]:
        """The names, of those that a method binds, that are only known in part."""
        known = self._patterns.get(id(stored))
        # While the method is walked, what it binds grows.
        if known is None or known[0] != len(stored):
            known = (len(stored), [name for name in stored if ANY_NAME in name])
            self._patterns[id(stored)] = known
        return known[1]

    def class_level(self, info: ClassInfo, name: str) -> Value:
        """What a class body binds `name` to."""
        key = (info.file.path, info.facts.qualname, name)
        found = self._class_level.get(key)
        if found is None:
            self._class_level[key] = NOTHING
            start, end = info.facts.attributes[name]
            found = self._statement_value(info.file, start, end, name, info)
            self._class_level[key] = found
        return found

    def global_value(self, symbol: GlobalName) -> Value:
        """What a file binds a name to at its top level."""
        key = (symbol.file.path, "", symbol.name)
        found = self._class_level.get(key)
        if found is None:
            self._class_level[key] = NOTHING
            start, end = symbol.file.facts.globals[symbol.name]
            found = self._statement_value(symbol.file, start, end, symbol.name, None)
            self._class_level[key] = found
        return found

    def _statement_value(self, file: SourceFile, start: int, end: int, name: str, owner: ClassInfo | None) -> Value:
        offset = cut_offset(file, start)
        for node in parse_lines(file, start, end):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
                declared = self.annotation(file, node.annotation)
                if node.value is None:
                    return declared
                value = self._evaluate(file, node.value, offset, owner)
                return join(declared, value) if declared.kinds != Kind.UNKNOWN else value
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name) and target.id == name:
                        return self._evaluate(file, node.value, offset, owner)
                    if owner is not None and isinstance(target, ast.Attribute) and target.attr == name:
                        return self._evaluate(file, node.value, offset, None)
                    if isinstance(target, (ast.Tuple, ast.List)):
                        value = self._evaluate(file, node.value, offset, owner)
                        for index, item in enumerate(target.elts):
                            if isinstance(item, ast.Name) and item.id == name:
                                exact = value.items is not None and len(value.items) == len(target.elts)
                                return value.items[index] if exact and value.items else value.elements() or Value()
        return Value()

    def annotation(self, file: SourceFile, node: ast.expr) -> Value:
        """What a value with this annotation may be."""
        if isinstance(node, ast.Constant):
            if node.value is None:
                return Value(Kind.NONE)
            if isinstance(node.value, str):
                try:
                    return self.annotation(file, ast.parse(node.value, mode="eval").body)
                except (SyntaxError, ValueError, RecursionError, MemoryError):
                    return Value()
            return Value()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return join(self.annotation(file, node.left), self.annotation(file, node.right))
        if isinstance(node, ast.Subscript):
            name = _last_name(node.value)
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if name in _WRAPPERS:
                found = join_all(self.annotation(file, part) for part in (parts[:1] if name == "Annotated" else parts))
                return join(found, Value(Kind.NONE)) if name == "Optional" else found
            outer = self.annotation(file, node.value)
            if outer.kinds & (Kind.CONTAINER | Kind.TUPLE) and parts:
                inner = [part for part in parts if not (isinstance(part, ast.Constant) and part.value is ...)]
                last = inner[-1:] if outer.kinds & (Kind.DICT | Kind.LIST | Kind.SET) else inner
                return Value(outer.kinds, classes=outer.classes, element=join_all(self.annotation(file, part) for part in last))
            return outer
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = _last_name(node)
            if name in _ANNOTATIONS:
                return Value(_ANNOTATIONS[name])
            dotted = ast.unparse(node)
            symbol = self._project.resolve(file, dotted)
            if isinstance(symbol, (ClassInfo, ExternalClass)):
                return instance_of(symbol)
            if isinstance(symbol, FunctionName):
                return Value(Kind.FUNCTION)
            if isinstance(symbol, GlobalName):
                found = self.global_value(symbol)
                classes = [item.info for item in found.objects if isinstance(item, ClassObject)]
                return join_all(instance_of(info) for info in classes) if classes else Value()
            if isinstance(symbol, str):
                external = self._project.external_class(symbol)
                return instance_of(external) if external.is_module else self._plain_external(external)
        return Value()

    def _plain_external(self, info: ExternalClass) -> Value:
        if config_class(info.name):
            return Value(Kind.OBJECT | Kind.CONFIG, classes=(info,))
        return Value(Kind.UNKNOWN, classes=(info,), objects=(External(info.dotted + ".instance"),))


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
