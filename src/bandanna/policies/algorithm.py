"""Names, budgets and import paths of algorithms."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from inspect import isabstract, signature
from pathlib import Path
from typing import Any, TypeVar

from bandanna import validation
from bandanna.errors import BandannaError, InvalidArgument, InvalidBudget, did_you_mean
from bandanna.policies.base import Policy
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.protocols import privacy_model
from bandanna.protocols.privacy_model import Privacy

Numbers = tuple[str, ...]

BUDGET_CLASSES: dict[Numbers, Callable[..., Budget]] = {
    ("rho",): ZCDP,
    ("epsilon", "delta"): ApproxDP,
    ("alpha", "epsilon"): RenyiDP,
    ("epsilon",): PureDP,
}


def take_budget(name: str, arguments: dict[str, Any], allowed: tuple[Numbers, ...]) -> Budget:
    """Take the budget of the algorithm `name` out of its arguments; it is given in one of the allowed ways.

    >>> take_budget("AdaP-UCB", {"epsilon": 1.0}, (("epsilon",),))
    PureDP(epsilon=1.0)
    """
    given = {each: arguments.pop(each) for each in ("rho", "epsilon", "delta", "alpha") if each in arguments}
    whole = arguments.pop("budget", None)
    words, hint = ", or ".join(" and ".join(names) for names in allowed), f"Pass it to make({name!r}, ...)"
    if whole is None:
        for names in allowed:
            if set(given) == set(names):
                return BUDGET_CLASSES[names](**given)
        raise InvalidBudget("budget", given or None, words, hint)
    if given:
        raise InvalidBudget("budget", whole, "left out", f"{' and '.join(given)} is given, too")
    if type(whole) not in [BUDGET_CLASSES[names] for names in allowed]:
        raise InvalidBudget("budget", whole, words, hint)
    return whole  # type: ignore[no-any-return]


Kind = TypeVar("Kind", bound=type)

PURE, APPROX = ("epsilon",), ("epsilon", "delta")
ANY_BUDGET = (("rho",), APPROX, ("alpha", "epsilon"))
ANY_BUDGET_WORDS = "zCDP, DP or Renyi DP"


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A policy with a name.

    `kind` is its class, `options` are the arguments of its privacy that `make` takes, `whole` allows `budget=`.
    """

    name: str
    paper: str
    trust: str
    protects: str
    guarantee: str
    make: Callable[..., Any]
    kind: type[Any]
    options: tuple[str, ...] = ()
    whole: bool = False


def _check_privacy(name: str, trust: str, chosen: Mapping[str, Any], numbers: tuple[str, ...]) -> None:
    """Refuse a privacy that contradicts the name, or a budget given twice."""
    privacy = chosen["privacy"]
    if not isinstance(privacy, Privacy) or privacy.model != trust:
        shown = privacy.model if isinstance(privacy, Privacy) else privacy
        raise InvalidArgument(
            "privacy", shown, f"bd.{trust}({'...' * (trust != 'none')})", f"{name} has this privacy model"
        )
    for given in numbers:
        if given in chosen:
            raise InvalidArgument(given, chosen[given], "left out", f"privacy= states the budget of {name} already")


ALGORITHMS: dict[str, Algorithm] = {}  # by name; `catalogue` puts ours into their order


def register_algorithm(
    name: str,
    *,
    paper: str,
    trust: str = "none",
    guarantee: str = "none",
    protects: str = "rewards",
    budgets: tuple[Numbers, ...] = (),
    options: tuple[str, ...] | None = None,
    spends: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    **fixed: Any,
) -> Callable[[Kind], Kind]:
    """Register a policy's class under a name; write one decorator for every name.

    `budgets` are the ways to give the budget, by their numbers (default: as `bd.central(...)` and its siblings take
    it). `options` are further arguments of the privacy model that `make` takes, and `spends` those that the name fixes.
    `defaults` and `fixed` are arguments of the class.
    """
    numbers = tuple(sorted({number for each in budgets for number in each}))
    if options is None:
        taken = {"budget", *(spends or ())} if not budgets else signature(getattr(privacy_model, trust)).parameters
        options = tuple(each for each in signature(getattr(privacy_model, trust)).parameters if each not in taken)

    def make(**arguments: Any) -> Any:
        decided = {**fixed, **(spends or {})}
        for given in sorted(set(decided) & set(arguments)):
            raise InvalidArgument(given, arguments[given], "left out", f"{name} is {given}={decided[given]!r}")
        chosen = {**(defaults or {}), **fixed, **arguments}
        if "n_arms" in own and "dim" not in own and "n_arms" not in chosen and "dim" in chosen:
            chosen["n_arms"] = chosen.pop("dim")  # features of finite arms are unit vectors
        if "privacy" in chosen:
            _check_privacy(name, trust, chosen, (*numbers, *options, *(spends or ())))
        elif trust == "none":
            chosen["privacy"] = privacy_model.none()
        else:
            whole = {"budget": take_budget(name, chosen, budgets)} if budgets else {}
            spent = {each: chosen.pop(each) for each in options if each in chosen and each not in own}
            chosen["privacy"] = getattr(privacy_model, trust)(**whole, **(spends or {}), **spent)
        return kind(**chosen)

    kind: type[Any]
    own: set[str]

    def named(given: Kind) -> Kind:
        nonlocal kind, own
        kind, own = given, {each.name for each in fields(given)}
        entry = Algorithm(
            name=name,
            paper=paper,
            trust="concurrent shuffle" if trust == "concurrent" else trust,
            protects="nothing" if trust == "none" else protects,
            guarantee=guarantee,
            make=make,
            kind=given,
            options=(*numbers, *(each for each in options if each not in own)),
            whole=bool(budgets),
        )
        if name in ALGORITHMS and ALGORITHMS[name].kind.__qualname__ != given.__qualname__:
            raise InvalidArgument("name", name, "a new name", f"{ALGORITHMS[name].kind.__name__} has this one")
        ALGORITHMS[name] = entry
        return given

    return named


# Import paths: make("my_module:MyPolicy", dim=5, horizon=1000, trust="shuffle", epsilon=1.0, delta=1e-5)


_IMPORTABLE = "module:Class, with a module that can be imported"
TRUSTS = ("none", "central", "local", "shuffle", "concurrent")


def is_import_path(name: Any) -> bool:
    """Return whether a name is "module:Class"."""
    return isinstance(name, str) and ":" in name


def add_import_folder(folder: Path) -> None:
    """Let modules of a folder be imported, here and in later processes."""
    if (place := str(folder.resolve())) not in sys.path:
        sys.path.append(place)


def suggest_import_path(name: Any) -> str:
    """Return a hint for a module or file named without its policy class. It reads the text and imports nothing."""
    if not isinstance(name, str) or not all(part.isidentifier() for part in _to_module_name(name).split(".")):
        return ""
    where = _to_module_name(name)
    file = Path(f"{where.replace('.', '/')}.py")
    try:
        places = (Path.cwd(), *(Path(each) for each in sys.path))
        text = next(each / file for each in places if (each / file).is_file()).read_text(encoding="utf-8")
        classes = [each for each in ast.parse(text).body if isinstance(each, ast.ClassDef)]
    except (StopIteration, OSError, ValueError, SyntaxError):  # there is none, or it is no Python
        return ""
    derived = [each.name for each in classes if each.bases] if "bandanna" in text else []
    named = [each for each in derived if "Policy" in each] or derived
    return f"Did you mean {f'{where}:{named[-1]}'!r}?" if named else ""


def _to_module_name(where: str) -> str:
    plain = where.removeprefix("./")
    return plain.removesuffix(".py").replace("/", ".") if plain.endswith(".py") else where


def import_algorithm(place: str) -> Algorithm:
    """Return an imported policy as if it had a name."""
    kind = _import_policy(place)
    own = {each.name for each in fields(kind) if each.init}
    options = dict.fromkeys(each for model in TRUSTS for each in signature(getattr(privacy_model, model)).parameters)

    def make(**chosen: Any) -> Any:
        if "n_arms" in own and "dim" not in own and "dim" in chosen:
            chosen.setdefault("n_arms", chosen.pop("dim"))  # features of finite arms are unit vectors
        if "privacy" in own and "privacy" not in chosen:
            if "trust" not in chosen and len(kind.trusts) > 1:
                models_of = ", ".join(f'"{each}"' for each in kind.trusts)
                raise InvalidArgument("trust", None, f"one of {models_of}", f"{place} has several privacy models")
            model = validation.one_of("trust", chosen.pop("trust", kind.trusts[0]), TRUSTS)
            takes = [each for each in signature(getattr(privacy_model, model)).parameters if each not in own]
            for name in (set(chosen) & set(options)) - {*takes, *own}:
                raise InvalidArgument(name, chosen[name], "left out", f"bd.{model} has no {name}")
            chosen["privacy"] = getattr(privacy_model, model)(
                **{each: chosen.pop(each) for each in takes if each in chosen}
            )
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


def source_digest(place: str) -> str:
    """Return a fingerprint of an imported policy's module."""
    module = sys.modules[_import_policy(place).__module__]
    try:
        source = inspect.getsource(module)
    except OSError:
        return "unknown"
    return hashlib.sha256(source.encode()).hexdigest()[:16]


def _import_policy(place: str) -> type[Any]:
    where, _, name = place.partition(":")
    if (plain := _to_module_name(where)) != where:
        raise InvalidArgument(
            "name", place, "the name of a module, not of a file", f"Did you mean {f'{plain}:{name}'!r}?"
        )
    add_import_folder(Path.cwd())
    try:
        module = importlib.import_module(where)
    except BandannaError as error:  # of ours, which may be a ValueError: the module was found
        raise InvalidArgument("name", place, _IMPORTABLE, f"{error}") from error
    except (ModuleNotFoundError, ValueError, TypeError) as error:
        if not isinstance(error, ModuleNotFoundError) or (error.name and where.startswith(error.name)):
            raise InvalidArgument("name", place, _IMPORTABLE, f"There is no module {where!r} here") from None
        raise InvalidArgument("name", place, _IMPORTABLE, f"{error}") from error
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidArgument("name", place, _IMPORTABLE, said) from error
    policies = [each for each, value in vars(module).items() if _is_policy(value)]
    kind: Any = getattr(module, name, None)
    if name not in vars(module):
        allowed = f"one of the policies of {where} ({', '.join(policies) or 'there are none'})"
        raise InvalidArgument("name", place, allowed, did_you_mean(name, policies))
    if not _is_policy(kind):
        raise InvalidArgument("name", place, "a subclass of bd.Policy that is a dataclass and has all of its methods")
    return kind  # type: ignore[no-any-return]


def _is_policy(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, Policy) and is_dataclass(value) and not isabstract(value)
