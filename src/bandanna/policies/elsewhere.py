"""Policies of one's own by their place: `"my_module:MyPolicy"` is as good as a name.

    make("my_module:MyPolicy", dim=5, horizon=1000, trust="shuffle", epsilon=1.0, delta=1e-5)

`trust` and the numbers of its budget become `privacy`, by `bd.shuffle(...)` or its siblings.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
from dataclasses import fields, is_dataclass
from inspect import isabstract, signature
from pathlib import Path
from typing import Any

from bandanna.core import require
from bandanna.core.spelling import did_you_mean
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.policies.base import Policy
from bandanna.policies.named import Algorithm
from bandanna.protocols import trust as models

TRUSTS = ("none", "central", "local", "shuffle", "concurrent")


def is_place(name: Any) -> bool:
    """Whether a name says where a class is."""
    return isinstance(name, str) and ":" in name


def importable(folder: Path) -> None:
    """Let modules of a folder be imported, here and in processes that are started from now on."""
    if (place := str(folder.resolve())) not in sys.path:
        sys.path.append(place)


def meant_place(name: Any) -> str:
    """A question, to stand before what is allowed, where a module or a file with a policy is named, but no class of it.

    Nothing is imported: its text is read.
    """
    if not isinstance(name, str) or not all(part.isidentifier() for part in _module_of(name).split(".")):
        return ""
    where = _module_of(name)
    file = Path(f"{where.replace('.', '/')}.py")
    try:
        places = (Path.cwd(), *(Path(each) for each in sys.path))
        text = next(each / file for each in places if (each / file).is_file()).read_text(encoding="utf-8")
        classes = [each for each in ast.parse(text).body if isinstance(each, ast.ClassDef)]
    except (StopIteration, OSError, ValueError, SyntaxError):  # there is none, or it is no Python
        return ""
    derived = [each.name for each in classes if each.bases] if "bandanna" in text else []
    named = [each for each in derived if "Policy" in each] or derived
    return f"did you mean {f'{where}:{named[-1]}'!r}? " if named else ""


def _module_of(where: str) -> str:
    """The name of a module, where that of its file was given."""
    plain = where.removeprefix("./")
    return plain.removesuffix(".py").replace("/", ".") if plain.endswith(".py") else where


def algorithm_at(place: str) -> Algorithm:
    """The policy of that place, as if it had a name."""
    kind = _policy(place)
    own = {each.name for each in fields(kind) if each.init}
    options = dict.fromkeys(each for model in TRUSTS for each in signature(getattr(models, model)).parameters)

    def make(**chosen: Any) -> Any:
        if "n_arms" in own and "dim" not in own and "dim" in chosen:
            chosen.setdefault("n_arms", chosen.pop("dim"))  # features of finite arms are unit vectors
        if "privacy" in own and "privacy" not in chosen:
            if "trust" not in chosen and len(kind.trusts) > 1:
                models_of = ", ".join(f'"{each}"' for each in kind.trusts)
                raise InvalidArgument("trust", None, f"{place} needs it, one of {models_of}")
            model = require.one_of("trust", chosen.pop("trust", kind.trusts[0]), TRUSTS)
            takes = [each for each in signature(getattr(models, model)).parameters if each not in own]
            for name in (set(chosen) & set(options)) - {*takes, *own}:
                raise InvalidArgument(name, chosen[name], f"left out, or another trust: bd.{model} has no {name}")
            chosen["privacy"] = getattr(models, model)(**{each: chosen.pop(each) for each in takes if each in chosen})
        return kind(**chosen)

    return Algorithm(
        name=place,
        paper="",
        trust="",
        protects="",
        guarantee="",
        make=make,
        kind=kind,
        options=tuple(each for each in ("trust", *options) if each not in own) if "privacy" in own else (),
    )


def code_of(place: str) -> str:
    """A fingerprint of the module that a policy of one's own is in: results of other code are others."""
    module = sys.modules[_policy(place).__module__]
    try:
        source = inspect.getsource(module)
    except OSError:
        return "unknown"
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _policy(place: str) -> type[Any]:
    """The class, or an error of one line that says what is wrong with the place."""
    where, _, name = place.partition(":")
    if (plain := _module_of(where)) != where:
        raise InvalidArgument("name", place, f"did you mean {f'{plain}:{name}'!r}? the name of a module, not of a file")
    importable(Path.cwd())
    try:
        module = importlib.import_module(where)
    except BandannaError as error:  # of ours, which may be a ValueError: the module was found
        raise InvalidArgument("name", place, f"a module that can be imported: {error}") from error
    except (ModuleNotFoundError, ValueError, TypeError) as error:
        if not isinstance(error, ModuleNotFoundError) or (error.name and where.startswith(error.name)):
            allowed = f"a module that can be imported, with a class: there is no module {where!r} here"
            raise InvalidArgument("name", place, allowed) from None
        raise InvalidArgument("name", place, f"a module that can be imported: {error}") from error
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidArgument("name", place, f"a module that can be imported: {said}") from error
    policies = [each for each, value in vars(module).items() if _is_policy(value)]
    kind: Any = getattr(module, name, None)
    if name not in vars(module):
        allowed = (
            f"{did_you_mean(name, policies)}one of the policies of {where}: {', '.join(policies) or 'there are none'}"
        )
        raise InvalidArgument("name", place, allowed)
    if not _is_policy(kind):
        raise InvalidArgument("name", place, "a subclass of bd.Policy that is a dataclass, with all of its methods")
    return kind  # type: ignore[no-any-return]


def _is_policy(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Policy) and is_dataclass(value) and not isabstract(value)
