"""Compare any two values by content, and list the numbers of a value."""

from __future__ import annotations

import copyreg
import functools
import hashlib
import numbers as kinds
from collections.abc import Hashable, Iterator
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

ValueLeaf = tuple[str, Hashable]

OPAQUE = "not compared"
_LONG = 256  # bytes, above which a digest stands for an array
_PLAIN = (type(None), bool, int, str, bytes, bytearray)


def take_apart(value: Any, path: str = "") -> Iterator[ValueLeaf]:
    """Take a value of any kind apart into leaves; equal sequences mean equal values.

    Each leaf comes with its path, which begins with `path` and has names of attributes and indices, never keys or
    contents.
    """
    return _iterate_leaves(value, path, ())


def _iterate_leaves(value: Any, path: str, above: tuple[int, ...]) -> Iterator[ValueLeaf]:
    kind = type(value)
    if kind in _PLAIN:
        yield path, (kind.__name__, bytes(value) if kind is bytearray else value)
    elif kind is memoryview:
        yield path, (kind.__name__, value.tobytes())
    elif kind is float:
        yield path, ("float", value.hex())
    elif kind is complex:
        yield path, ("complex", value.real.hex(), value.imag.hex())
    elif kind is np.ndarray or isinstance(value, np.generic):
        yield from _array_leaf(np.asarray(value), path, above)
    elif id(value) in above:
        yield path, ("as above", len(above) - above.index(id(value)))
    else:
        yield path, _name(kind)
        yield from _inner_parts(value, path, (*above, id(value)))


def _inner_parts(value: Any, path: str, above: tuple[int, ...]) -> Iterator[ValueLeaf]:
    """Yield a value's contents, attributes, and the state that a copy is made from."""
    kind = type(value)
    if isinstance(value, type | BuiltinFunctionType | ModuleType):
        yield path, _name(value)
        return
    if isinstance(value, FunctionType | MethodType):
        yield from _function_parts(value, path, above)
        return
    known = True
    if isinstance(value, np.ndarray):
        yield from _array_leaf(np.asarray(value), path, above)
    elif isinstance(value, dict | MappingProxyType):
        for place, (key, part) in enumerate(value.items()):  # a reader sees their order
            yield from _iterate_leaves(key, f"{path}.key[{place}]", above)
            yield from _iterate_leaves(part, f"{path}[{place}]", above)
    elif isinstance(value, set | frozenset):
        yield path, tuple(sorted((tuple(_iterate_leaves(part, "", above)) for part in value), key=repr))
    elif isinstance(value, list | tuple):
        for place, part in enumerate(value):
            yield from _iterate_leaves(part, f"{path}[{place}]", above)
    elif isinstance(value, int | float | complex | str | bytes):
        base: Any = next(each for each in (int, float, complex, str, bytes) if isinstance(value, each))
        yield from _iterate_leaves(base.__new__(base, value), path, above)
    else:
        known = False
    attributes = _list_attributes(value)
    for name, part in attributes:
        yield from _iterate_leaves(part, f"{path}.{name}", above)
    plain = all(
        getattr(kind, each) is getattr(object, each) for each in ("__reduce__", "__reduce_ex__", "__getstate__")
    )
    if not known and (not plain or _has_hidden_content(value)):
        yield from _copy_parts(value, path, above, needed=plain or not attributes)


def _list_attributes(value: Any) -> list[tuple[str, Any]]:
    """Return an object's attributes in a fixed order, without cached properties."""
    kind = type(value)
    slots = [name for each in kind.__mro__ for name in _list_slots(each)]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)} | dict(getattr(value, "__dict__", {}))
    return [
        (name, held[name])
        for name in sorted(held, key=str)
        if not isinstance(getattr(kind, str(name), None), functools.cached_property)
    ]


def _list_slots(kind: type) -> list[str]:
    slots = kind.__dict__.get("__slots__", ())
    names = [slots] if isinstance(slots, str) else list(slots)
    hidden = f"_{kind.__name__.lstrip('_')}"  # a name such as __raw is mangled
    return [
        hidden + name if name.startswith("__") and not name.endswith("__") else name
        for name in names
        if name not in ("__dict__", "__weakref__")
    ]


def _has_hidden_content(value: Any) -> bool:
    """Return whether an object holds more than attributes, as in C."""
    try:
        object.__reduce_ex__(value, 4)
    except Exception:
        return True
    return False


def _copy_parts(value: Any, path: str, above: tuple[int, ...], *, needed: bool) -> Iterator[ValueLeaf]:
    try:
        copy = copyreg.dispatch_table.get(type(value))
        made: Any = copy(value) if copy else value.__reduce_ex__(4)
        parts = made if isinstance(made, str) else tuple(list(part) if _is_lazy(part) else part for part in made)
    except Exception:  # a class may refuse to be copied in any way
        if needed:
            yield path, OPAQUE
        return
    yield from _iterate_leaves(parts, f"{path}.copied", above)


def _is_lazy(part: Any) -> bool:
    return hasattr(part, "__next__") and not isinstance(part, type)


def _function_parts(value: FunctionType | MethodType, path: str, above: tuple[int, ...]) -> Iterator[ValueLeaf]:
    if isinstance(value, MethodType):
        yield from _iterate_leaves((value.__func__, value.__self__), path, above)
        return
    yield path, _name(value)
    cells = [_cell_content(each) for each in value.__closure__ or ()]
    yield from _iterate_leaves((cells, value.__defaults__, value.__kwdefaults__), path, above)


def _cell_content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return None


def _array_leaf(array: NDArray[Any], path: str, above: tuple[int, ...]) -> Iterator[ValueLeaf]:
    """Yield an array by type, shape and entries; bytes do not describe objects or padding."""
    dtype = array.dtype
    if dtype.names:
        for name in dtype.names:
            yield from _array_leaf(array[name], f"{path}.{name}", above)
    elif dtype.hasobject:
        yield path, (dtype.str, array.shape)
        for place, part in enumerate(array.ravel().tolist()):
            yield from _iterate_leaves(part, f"{path}[{place}]", above)
    elif dtype.kind in "fc" and dtype.itemsize > (8 if dtype.kind == "f" else 16):
        yield path, (dtype.str, array.shape, tuple(repr(each) for each in array.ravel()))
    else:
        content = array.tobytes()
        short = content if len(content) <= _LONG else hashlib.blake2b(content, digest_size=32).digest()
        yield path, (dtype.str, array.shape, short)


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"


def first_difference(one: Any, two: Any) -> str | None:
    """Return the path where two values differ first, None if they are equal."""
    mine, other = list(take_apart(one)), list(take_apart(two))
    for (path, token), (_, another) in zip(mine, other, strict=False):
        if token != another:
            return path
    longer = mine if len(mine) > len(other) else other
    return None if len(mine) == len(other) else longer[min(len(mine), len(other))][0]


def list_arrays(value: Any, above: tuple[int, ...] = ()) -> Iterator[NDArray[Any]]:
    """Yield all numbers of a value as arrays, in order."""
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in "biuf":
            yield np.asarray(value)
        elif value.dtype.hasobject:
            yield from list_arrays(np.asarray(value).ravel().tolist(), above)
    elif isinstance(value, kinds.Real):
        yield np.asarray(value if isinstance(value, bool | float) else _number(value))
    elif isinstance(value, str | bytes | type) or value is None or id(value) in above:
        return
    else:
        contents = value.values() if isinstance(value, dict) else value
        inside = [*contents] if isinstance(value, dict | list | tuple | set | frozenset) else []
        for part in [*inside, *(each for _, each in _declared_attributes(value))]:
            yield from list_arrays(part, (*above, id(value)))


def _declared_attributes(value: Any) -> list[tuple[str, Any]]:
    attributes = dict(_list_attributes(value))
    order = [name for name in getattr(type(value), "__dataclass_fields__", {}) if name in attributes]
    return [(name, attributes[name]) for name in dict.fromkeys([*order, *attributes])]


def _number(value: Any) -> Any:
    if isinstance(value, int) and abs(value) < 2**63:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def numbers_from_leaves(found: list[ValueLeaf]) -> list[float]:
    """Return leaves as numbers for a test of samples; other leaves become digests in [0, 1)."""
    columns: list[float] = []
    for _, token in found:
        match token:
            case ("float", str(text)):
                columns.append(float.fromhex(text))
            case ("int" | "bool", int(number)):
                columns.append(float(_number(number)))
            case (str(dtype), tuple(shape), bytes(content)) if np.dtype(dtype).kind in "biuf" and len(
                content
            ) == np.dtype(dtype).itemsize * int(np.prod(shape)):
                columns += np.frombuffer(content, dtype=dtype).astype(float).tolist()
            case _:
                digest = hashlib.blake2b(repr(token).encode(), digest_size=6).digest()
                columns.append(int.from_bytes(digest, "little") / 2**48)
    return columns
