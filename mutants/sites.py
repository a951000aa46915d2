"""Where a factor can be lost: noise, sensitivity, sqrt 2, dimension, participations, composition."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NOISE = {"std", "stds", "noise_std", "unit_std", "prefix_std", "sigma", "noise_scale", "deviation"}
VARIANCE = {"variance", "variances", "noise_variance", "unit_variance"}
COINS = {"trials", "coins_each"}
SENSITIVITY = {"sensitivity", "l1_sensitivity", "shift", "change", "diameter", "lost"}
DIMENSION = {"dim", "d", "touched", "features", "coordinates"}
PEOPLE = {"participations", "times", "releases", "repeats"}
PARTS = {"mu", "tail", "rho", "epsilon", "delta", "price", "paid", "spent"}
TOTALS = PARTS | {"total", "worst", "gaussian", "mixed", "beyond", "sure", "mass"}
TOTALS |= {"rounding_tail", "gaussian_price", "pure_price", "concentrated_price", "_heaviest"}
CUT = {  # by a tenth of a standard deviation
    **dict.fromkeys(NOISE, ("noise", "0.9 * ({})")),
    "scale": ("noise", "0.9 * ({})"),
    **dict.fromkeys(VARIANCE, ("noise", "0.81 * ({})")),
    **dict.fromkeys(COINS, ("noise", "({}) * 81 // 100")),
    **dict.fromkeys(SENSITIVITY, ("sensitivity", "0.9 * ({})")),
}
GIVEN = {  # what else is lost where it is passed on
    **dict.fromkeys(DIMENSION, ("dimension", "1")),
    **dict.fromkeys(PEOPLE, ("participations", "1")),
    "users": ("users", "2 * ({})"),
}
FACTOR = {**dict.fromkeys(DIMENSION, "dimension"), **dict.fromkeys(PEOPLE, "participations")}
SHAPES = {"range", "len", "zeros", "ones", "eye", "full", "arange", "isinf", "isfinite", "hasattr", "whole", "positive"}
ARITHMETIC = (ast.Mult, ast.Div, ast.Add, ast.Sub, ast.Pow)


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One expression of a file, and what stands in its place."""

    path: str
    where: str  # qualified name of the function; empty at the module's level
    kind: str
    before: str
    after: str
    line: int
    number: int = 0  # among those that are alike in all but their line

    @property
    def name(self) -> str:
        """The same after lines have moved."""
        return f"{self.path}::{self.where}: {self.before} -> {self.after} [{self.kind} {self.number}]"


def mutants(path: Path, root: Path) -> list[Mutant]:
    """Of a file, in the order of its lines."""
    return [mutant for mutant, _ in _found(ast.parse(path.read_text()), path.relative_to(root).as_posix())]


def mutated(text: str, mutant: Mutant | None) -> ast.Module:
    """The file's syntax tree with the mutant in it; with none it is as it was."""
    tree = ast.parse(text)
    if mutant is None:
        return tree
    for each, node in _found(tree, mutant.path):
        if each.name == mutant.name:
            put = ast.copy_location(ast.parse(each.after, mode="eval").body, node)
            return ast.fix_missing_locations(_Put(node, put).visit(tree))
    raise LookupError(f"no such place any more: {mutant.name}")


class _Put(ast.NodeTransformer):
    def __init__(self, old: ast.expr, new: ast.expr) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self.old:
            return self.new
        self.generic_visit(node)
        return node


def _found(tree: ast.Module, path: str) -> Iterator[tuple[Mutant, ast.expr]]:
    """Every mutant and the node that it replaces."""
    seen: dict[str, int] = {}
    done: set[tuple[int, str]] = set()
    for where, node, kind, after in _walk(tree, "", names_of(tree)):
        before = ast.unparse(node)
        if (id(node), after) in done or before == after:
            continue
        done.add((id(node), after))
        mutant = Mutant(path=path, where=where, kind=kind, before=before, after=after, line=node.lineno)
        number = seen[mutant.name] = seen.get(mutant.name, -1) + 1
        yield Mutant(**{**vars(mutant), "number": number}), node


def names_of(tree: ast.Module) -> dict[int, str]:
    """Qualified names of functions and classes by their first lines; those of one name are numbered, as `_#2`."""
    found: dict[int, str] = {}
    seen: dict[str, int] = {}

    def walk(node: ast.AST, where: str) -> None:
        for each in ast.iter_child_nodes(node):
            inside = where
            if isinstance(each, ast.FunctionDef | ast.ClassDef):
                plain = f"{where}.{each.name}" if where else each.name
                seen[plain] = seen.get(plain, 0) + 1
                inside = plain if seen[plain] == 1 else f"{plain}#{seen[plain]}"
                found[first_line(each)] = inside
            walk(each, inside)

    walk(tree, "")
    return found


def first_line(node: ast.FunctionDef | ast.ClassDef) -> int:
    """That of its first decorator, as code objects have it."""
    return node.decorator_list[0].lineno if node.decorator_list else node.lineno


Place = tuple[str, ast.expr, str, str]  # where, the node, the kind, what stands in its place


def _walk(node: ast.AST, where: str, names: dict[int, str]) -> Iterator[Place]:
    """All places below a node; messages, annotations and checks of arguments are not looked at."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr):
        return
    if isinstance(node, ast.If | ast.While) and all(isinstance(each, ast.Raise) for each in node.body):
        for each in node.orelse:
            yield from _walk(each, where, names)
        return
    inside = where
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inside = names[first_line(node)]
    for kind, expression, after in _here(node, where):
        yield where, expression, kind, after
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "slice"):
            continue
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _walk(each, inside, names)


def _here(node: ast.AST, where: str) -> Iterator[tuple[str, ast.expr, str]]:
    if isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC):
        yield from _of_arithmetic(node)
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from _named(target, node.value)
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        if words_of(node.target) & TOTALS:
            yield "composition", node.value, f"0 * ({ast.unparse(node.value)})"
        yield from _cut(name_of(node.target), node.value)
    elif isinstance(node, ast.Return) and node.value is not None:
        name = where.rsplit(".", 1)[-1].partition("#")[0]
        words = [name, *name.strip("_").split("_")]
        yield from _cut(next((word for word in words if word in CUT and word != "scale"), ""), node.value)


def _of_call(node: ast.Call) -> Iterator[tuple[str, ast.expr, str]]:
    called, arguments = name_of(node.func), node.args
    if called == "sqrt" and len(arguments) == 1:
        what = name_of(arguments[0])
        if isinstance(arguments[0], ast.Constant) and arguments[0].value == 2:
            yield "sqrt 2", node, "1.0"
        elif what in FACTOR:
            yield FACTOR[what], node, "1.0"
        elif what in CUT:
            yield CUT[what][0], arguments[0], CUT[what][1].format(ast.unparse(arguments[0]))
    if called == "hypot" and len(arguments) == 2:
        yield "composition", node, ast.unparse(arguments[0])
    terms = arguments[0] if called in ("sum", "fsum") and arguments else None
    if isinstance(terms, ast.GeneratorExp) and words_of(terms.elt) & TOTALS:
        yield "composition", node, _dearest(node, terms)
    for each in arguments if called not in {*SHAPES, "sqrt"} else []:
        what = "" if isinstance(each, ast.Call) else name_of(each)
        if what in CUT or what in FACTOR:
            kind, form = CUT[what] if what in CUT else GIVEN[what]
            yield kind, each, form.format(ast.unparse(each))
    for keyword in node.keywords:
        if keyword.arg in CUT:
            yield from _cut(keyword.arg, keyword.value)
        elif keyword.arg in GIVEN and not isinstance(keyword.value, ast.Constant):
            kind, form = GIVEN[keyword.arg]
            yield kind, keyword.value, form.format(ast.unparse(keyword.value))


def _of_arithmetic(node: ast.BinOp) -> Iterator[tuple[str, ast.expr, str]]:
    for operand, other in ((node.left, node.right), (node.right, node.left)):
        name = name_of(operand)
        if name in CUT:
            yield CUT[name][0], operand, CUT[name][1].format(ast.unparse(operand))
        elif name in FACTOR and isinstance(node.op, ast.Mult | ast.Div):
            yield FACTOR[name], operand, "1"
        elif _is_two(operand) and isinstance(node.op, ast.Mult) and not _is_two(other):
            yield "factor 2", node, ast.unparse(other)
    if _is_two(node.right) and isinstance(node.op, ast.Div):
        yield "factor 2", node, ast.unparse(node.left)
    if _is_two(node.left) and isinstance(node.op, ast.Pow) and _is_half(node.right):
        yield "sqrt 2", node, "1.0"
    if isinstance(node.op, ast.Add) and _adds(node.left) and words_of(node.right) & TOTALS:
        yield "composition", node, ast.unparse(node.left)


def _adds(node: ast.expr) -> bool:
    """Whether it is a part of a price or a delta: by its name, or a product or sum of such."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Add):
        return _adds(node.left) or _adds(node.right)
    adds = isinstance(node, ast.Call) and name_of(node) in ("sum", "fsum")
    return bool(words_of(node) & TOTALS) if adds else name_of(node) in TOTALS


def _dearest(node: ast.Call, terms: ast.GeneratorExp) -> str:
    """One term alone; whole prices, which are added to a first one, are ordered by their mu."""
    first = next((each.value for each in node.keywords if each.arg == "start"), None)
    by = "" if first is None else ", key=lambda each: each.mu"
    return f"max(({ast.unparse(terms)}), default={0 if first is None else ast.unparse(first)}{by})"


def _named(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr, str]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for one, its in zip(target.elts, value.elts, strict=True):
            yield from _named(one, its)
        return
    yield from _cut(name_of(target), value)


def _cut(name: str, value: ast.expr) -> Iterator[tuple[str, ast.expr, str]]:
    """A whole value of that name; not one that is a product of such a thing, which is cut by itself."""
    if name not in CUT or isinstance(value, ast.Tuple | ast.List | ast.ListComp | ast.Lambda | ast.Dict | ast.Compare):
        return
    if isinstance(value, ast.Call) and name_of(value) == "zeros":
        return
    if isinstance(value, ast.Constant) and not isinstance(value.value, int | float):
        return
    if isinstance(value, ast.Constant) and value.value in (0, True, False):
        return
    if isinstance(value, ast.BinOp) and any(name_of(each) in CUT for each in (value.left, value.right)):
        return
    kind, form = CUT[name]
    yield kind, value, form.format(ast.unparse(value))


def name_of(node: ast.expr) -> str:
    """The last word of a name, an attribute or a call."""
    node = node.func if isinstance(node, ast.Call) else node
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def words_of(node: ast.expr) -> set[str]:
    """All names in an expression."""
    return {name_of(each) for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute)}


def _is_two(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float) and node.value == 2


def _is_half(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0.5
