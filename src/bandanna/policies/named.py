"""What it takes to be known by name: a line above the policy's class.

@algorithm("AdaP-UCB", paper="004", trust="central", guarantee="DP, pure", budgets=(PURE,))
class UCBEpisodes(...)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from inspect import signature
from typing import Any, TypeVar

from bandanna.errors import InvalidArgument
from bandanna.policies.named_budget import Numbers, named_budget
from bandanna.protocols import trust as models
from bandanna.protocols.trust import Privacy

Kind = TypeVar("Kind", bound=type)

PURE, APPROX = ("epsilon",), ("epsilon", "delta")
ANY = (("rho",), APPROX, ("alpha", "epsilon"))
ANY_OF_THEM = "zCDP, DP or Renyi DP"


@dataclass(frozen=True, kw_only=True)
class Algorithm:
    """A name, where it comes from, whom its users trust, what it protects, what it guarantees, and how it is made.

    kind     the policy's class, whose arguments a file may set
    options  the numbers of its budget, its calibration and the like, that `make` takes beside those arguments
    whole    whether its budget may be given whole too, `budget=`
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


def _suits(name: str, trust: str, chosen: Mapping[str, Any], numbers: tuple[str, ...]) -> None:
    """Refuse a privacy of another trust model than the name says, or one beside the numbers of a budget."""
    privacy = chosen["privacy"]
    if not isinstance(privacy, Privacy) or privacy.model != trust:
        shown = privacy.model if isinstance(privacy, Privacy) else privacy
        raise InvalidArgument("privacy", shown, f"bd.{trust}({'...' * (trust != 'none')}), which {name} stands for")
    for given in numbers:
        if given in chosen:
            raise InvalidArgument(given, chosen[given], f"left out: privacy= says what {name} promises")


ALGORITHMS: dict[str, Algorithm] = {}  # by name; `catalogue` puts ours into their order


def algorithm(
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
    """Names a policy's class: above it, one line for every name it has.

    budgets   the ways in which its budget may be given, by their numbers; without them, as `bd.central`, ... take it
    options   further arguments of `bd.central`, `bd.local`, ... that `make` takes: without budgets, all of them
    spends    arguments of `bd.central`, ... that the name decides
    defaults  arguments of the class that the name suggests; `fixed`: those that it decides
    """
    numbers = tuple(sorted({number for each in budgets for number in each}))
    if options is None:
        taken = {"budget", *(spends or ())} if not budgets else signature(getattr(models, trust)).parameters
        options = tuple(each for each in signature(getattr(models, trust)).parameters if each not in taken)

    def make(**arguments: Any) -> Any:
        decided = {**fixed, **(spends or {})}
        for given in sorted(set(decided) & set(arguments)):
            raise InvalidArgument(given, arguments[given], f"left out: {name} says {given}={decided[given]!r}")
        chosen = {**(defaults or {}), **fixed, **arguments}
        if "n_arms" in own and "dim" not in own and "n_arms" not in chosen and "dim" in chosen:
            chosen["n_arms"] = chosen.pop("dim")  # features of finite arms are unit vectors
        if "privacy" in chosen:
            _suits(name, trust, chosen, (*numbers, *options, *(spends or ())))
        elif trust == "none":
            chosen["privacy"] = models.none()
        else:
            whole = {"budget": named_budget(name, chosen, budgets)} if budgets else {}
            spent = {each: chosen.pop(each) for each in options if each in chosen and each not in own}
            chosen["privacy"] = getattr(models, trust)(**whole, **(spends or {}), **spent)
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
            raise InvalidArgument("name", name, f"a name of its own: {ALGORITHMS[name].kind.__name__} has this one")
        ALGORITHMS[name] = entry
        return given

    return named
