"""Events: frozen values that describe releases. The accountant prices nothing else.

An event has noise, sensitivity, dimension and grid. Its sensitivity is that of one user's replacement, so the adjacency
is fixed here, never in the accountant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from bandanna import validation
from bandanna.device.domain import Estimate
from bandanna.device.randomizers import CAP_CANDIDATES, CAP_COORDINATES, CAP_STEPS
from bandanna.errors import InvalidArgument, UnknownEvent
from bandanna.privacy.factorisation import BLT, BinaryTree, Factorisation
from bandanna.storage.encoding import find_stored_name, has_name, index_by_stored_name, stored_as

_ALLOWED: dict[Callable[..., float], tuple[str, ...]] = {
    validation.positive: ("std", "scale", "sensitivity", "shift"),
    validation.integer: ("dim", "users", "trials", "reach", "participations", "times"),
    validation.non_negative: ("grid", "tail"),
    validation.open_probability: ("probability",),
}

PARTS = ("matrix", "weighted", "vector")


class Event:
    """Base class of all events; an accountant refuses unknown classes."""

    def __post_init__(self) -> None:
        for check, names in _ALLOWED.items():
            validation.set_validated(self, check, *(name for name in names if name in vars(self)))


@stored_as("NothingEvent")
@dataclass(frozen=True, kw_only=True)
class NothingEvent(Event):
    """Nothing private was released: price zero."""


@stored_as("ClearEvent")
@dataclass(frozen=True, kw_only=True)
class ClearEvent(Event):
    """Raw data was released: no guarantee holds for any epsilon."""


@stored_as("GaussianEvent")
@dataclass(frozen=True, kw_only=True)
class GaussianEvent(Event):
    """x + N(0, std^2 I) with l2 `sensitivity`, on a grid.

    With `grid` > 0, rounding to its multiples raises the sensitivity by grid * sqrt(dim), and the noise is a discrete
    Gaussian on the grid. grid = 0 is the ideal.
    """

    std: float
    sensitivity: float
    dim: int = 1
    grid: float = 0.0


@stored_as("DiscreteGaussianEvent")
@dataclass(frozen=True, kw_only=True)
class DiscreteGaussianEvent(Event):
    """An integer vector plus a discrete Gaussian of parameter `std` per coordinate; neighbours differ by l2 `shift`."""

    std: float
    shift: float
    dim: int = 1


@stored_as("LaplaceEvent")
@dataclass(frozen=True, kw_only=True)
class LaplaceEvent(Event):
    """x + Laplace(scale) per coordinate with l1 `sensitivity`; `grid` as in GaussianEvent (adds grid * dim in l1)."""

    scale: float
    sensitivity: float
    dim: int = 1
    grid: float = 0.0


@stored_as("DiscreteLaplaceEvent")
@dataclass(frozen=True, kw_only=True)
class DiscreteLaplaceEvent(Event):
    """An integer vector plus discrete Laplace(scale) per coordinate; neighbours differ by l1 <= `shift`."""

    scale: float
    shift: float
    dim: int = 1


@stored_as("CapEvent")
@dataclass(frozen=True, kw_only=True)
class CapEvent(Event):
    """One of `candidates` random directions: the first inside, or outside, the cap <u, u0> >= `cosine` about u0.

    With probability `chance` it is the first inside; if there is none on the chosen side, it is the first of all.
    `steps` of a Gaussian coordinate make a standard deviation.
    """

    cosine: float
    chance: float
    candidates: int
    dim: int
    steps: int = CAP_STEPS

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.unit_interval, "cosine", "chance")
        validation.set_validated(self, validation.integer, "candidates", most=CAP_CANDIDATES)
        validation.set_validated(self, validation.integer, "dim", least=2, most=CAP_COORDINATES)
        validation.set_validated(self, validation.integer, "steps", most=CAP_STEPS)


@stored_as("BinomialEvent")
@dataclass(frozen=True, kw_only=True)
class BinomialEvent(Event):
    """Totals of a batch: integers plus Bin(trials, probability) per coordinate.

    Parameters
    ----------
    shift
        Bound on the l2 norm of a neighbour's change before rounding, in units of the lattice (R = s Delta_2).
    reach
        Bound on the change of one coordinate after rounding.
    rounded
        Whether statistics were rounded stochastically to the lattice.
    tail
        Further total-variation mass, as from the refusal of improbable counts.
    """

    trials: int
    shift: float
    reach: int
    dim: int = 1
    probability: float = 0.5
    rounded: bool = True
    tail: float = 0.0


@stored_as("ShuffledGaussianEvent")
@dataclass(frozen=True, kw_only=True)
class ShuffledGaussianEvent(Event):
    """`users` reports x_i + N(0, std^2 I), each with l2 `sensitivity`, in a uniformly random order.

    Each report is that Gaussian up to a total-variation mass `tail`.
    """

    std: float
    sensitivity: float
    users: int
    dim: int = 1
    tail: float = 0.0


@stored_as("ContinualEvent")
@dataclass(frozen=True, kw_only=True)
class ContinualEvent(Event):
    """All prefix sums of a stream through a factorisation A = B C: C x + z is released, z_i ~ N(0, std^2 I).

    One element changes by at most `sensitivity` in l2; one user changes at most `participations` elements.
    """

    factorisation: Factorisation
    std: float
    sensitivity: float
    participations: int = 1
    dim: int = 1
    grid: float = 0.0


@stored_as("RecordEvent")
@dataclass(frozen=True, kw_only=True)
class RecordEvent(Event):
    """A release of one part of a user's features x, |x| <= 1, beside other parts of the same x.

    Alone it costs as much as `event`. Parts of one record have no common worst case and cost less than the sum
    (`price_jointly`).

    Parameters
    ----------
    part
        "matrix": x x^T; "weighted": w x x^T with any w in [0, 1]; "vector": y x with any |y| <= 1. The unit is that in
        which the sensitivity of `event` is sqrt 2, sqrt 2 and 2.
    record
        Releases of one user with the same name are about the same x.
    """

    event: GaussianEvent | ContinualEvent | BinomialEvent
    part: str
    record: str = ""

    def __post_init__(self) -> None:
        if type(self.event) not in (GaussianEvent, ContinualEvent, BinomialEvent):
            raise InvalidArgument("event", self.event, "a GaussianEvent, ContinualEvent or BinomialEvent")
        if isinstance(self.event, ContinualEvent) and self.event.participations != 1:
            raise InvalidArgument("event", self.event, "a stream with one participation")
        validation.one_of("part", self.part, PARTS)
        if not isinstance(self.record, str):
            raise InvalidArgument("record", self.record, "a text")


@stored_as("CompositionEvent")
@dataclass(frozen=True, kw_only=True)
class CompositionEvent(Event):
    """Several releases about the same user, each possibly chosen after seeing the earlier ones."""

    events: tuple[Event, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(self.events))
        for event in self.events:
            if not isinstance(event, Event):
                raise InvalidArgument("events", event, "events of bandanna.privacy.events")


@stored_as("RepetitionEvent")
@dataclass(frozen=True, kw_only=True)
class RepetitionEvent(Event):
    """`times` independent releases of the same kind about the same user."""

    event: Event
    times: int


def unwrap_record(event: Event) -> Event:
    """Return the release itself, without its record."""
    return event.event if isinstance(event, RecordEvent) else event


def unwrap_all_records(event: Event) -> Event:
    """Return the same releases without their records."""
    if isinstance(event, CompositionEvent):
        return CompositionEvent(events=tuple(unwrap_all_records(part) for part in event.events))
    if isinstance(event, RepetitionEvent):
        return RepetitionEvent(event=unwrap_all_records(event.event), times=event.times)
    return unwrap_record(event)


def format_event(event: Any) -> str:
    """Write an event as its `repr` does, with its stored name.

    A signal inside a dataclass's own `repr` would make every later one `...`.
    """
    if isinstance(event, tuple):
        return f"({', '.join(map(format_event, event))}{',' * (len(event) == 1)})"
    if not is_dataclass(event):
        return repr(event)
    if not has_name(type(event)):
        raise UnknownEvent(f"the accountant does not know {type(event).__name__} and does not guess")
    parts = (f"{each.name}={format_event(getattr(event, each.name))}" for each in fields(event) if each.repr)
    return f"{find_stored_name(type(event))}({', '.join(parts)})"


# Stored names


EVENTS = index_by_stored_name(
    NothingEvent,
    ClearEvent,
    GaussianEvent,
    DiscreteGaussianEvent,
    LaplaceEvent,
    DiscreteLaplaceEvent,
    CapEvent,
    BinomialEvent,
    ShuffledGaussianEvent,
    ContinualEvent,
    RecordEvent,
    CompositionEvent,
    RepetitionEvent,
    BLT,
    BinaryTree,
    Estimate,
)


# Parts of one record


PRICINGS = ("joint", "separate")  # of a matrix and a vector: by the above, or their worst cases added


def price_jointly(matrix: float, vector: float, *, weighted: bool) -> float:
    """Return mu^2 of a matrix and a vector of the same features, from their own prices A and B (proofs.md 0.4).

    mu^2 = A + B/2 + B^2/(16 A)  if B <= 4 A,  else B;      with weights w x x^T also at least A/2 + B.
    """
    both = vector if vector > 4 * matrix else matrix + vector / 2 + (vector**2 / (16 * matrix) if matrix else 0.0)
    return max(both, matrix / 2 + vector) if weighted else both


def price_joint_share(share: float, *, weighted: bool) -> float:
    """Return the joint price where `share` of a squared price of 1 is the matrix's."""
    return price_jointly(share, 1 - share, weighted=weighted)


def compute_joint_saving(parts: Iterable[tuple[RecordEvent, float]]) -> float:
    """Return how much less the parts cost together than the sum of their own mu^2, by record.

    The prices must be without rounding, whose share is always added.
    """
    squares: dict[str, dict[str, float]] = {}
    for event, square in parts:
        found = squares.setdefault(event.record, {})
        found[event.part] = found.get(event.part, 0.0) + square
    total = 0.0
    for found in squares.values():
        matrix, vector = found.get("matrix", 0.0) + found.get("weighted", 0.0), found.get("vector", 0.0)
        total += matrix + vector - price_jointly(matrix, vector, weighted="weighted" in found)
    return max(total, 0.0)
