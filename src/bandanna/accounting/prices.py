"""The Gaussian price of one event: mu-GDP up to a tail, or the statement that there is none.

Every price takes the total-variation mass that it may spend as `tail` (calibration.md, "One currency"): the same
release has a slightly smaller mu if a larger tail is allowed. Ideal Gaussians need none.
"""

from __future__ import annotations

import math
from functools import singledispatch

from scipy import special

from bandanna.accounting import caps, events, lattice, rounding
from bandanna.accounting.budgets import pure_rho
from bandanna.accounting.gdp import Price
from bandanna.errors import CalibrationError, UnknownEvent

NO_PRICE = Price(mu=math.inf, tail=0.0)


@singledispatch
def gaussian_price(event: events.Event, tail: float) -> Price:
    """Price of `event` in Gaussian DP, spending a tail of about `tail` where the event is not exactly Gaussian."""
    raise UnknownEvent(f"no Gaussian price is known for {type(event).__name__}: {event!r}")


@gaussian_price.register
def _(event: events.NothingEvent, tail: float) -> Price:
    return Price(mu=0.0)


@gaussian_price.register
def _(event: events.ClearEvent, tail: float) -> Price:
    return NO_PRICE


@gaussian_price.register
def _(event: events.GaussianEvent, tail: float) -> Price:
    """mu = Delta_2 / sigma; on a grid, rounding moves each coordinate by one more step, Theorem A prices the noise."""
    if event.grid == 0.0:
        return Price(mu=event.sensitivity / event.std)
    shift = event.sensitivity / event.grid + math.sqrt(event.dim)
    return _discrete_gaussian(event.std / event.grid, shift, touched=event.dim, tail=tail)


@gaussian_price.register
def _(event: events.DiscreteGaussianEvent, tail: float) -> Price:
    return _discrete_gaussian(event.std, event.shift, touched=event.dim, tail=tail)


@gaussian_price.register
def _(event: events.ContinualEvent, tail: float) -> Price:
    """mu = Delta_2 |c_1 + ... + c_M0| / sigma for the worst M0 columns of C, rounding of the touched numbers added."""
    change, touched = _moved(event)
    if event.grid == 0.0:
        return Price(mu=change / event.std)
    shift = change / event.grid + math.sqrt(touched)
    return _discrete_gaussian(event.std / event.grid, shift, touched=touched, tail=tail)


@gaussian_price.register
def _(event: events.BinomialEvent, tail: float) -> Price:
    """Theorem A with the composable rounding bound of A.3b; half of the tail for each."""
    if not event.rounded:
        return _lattice_price(binomial_unit(event, tail), event, event.shift, 0.0)
    shift = rounding.composable_shift(event.shift, event.dim, tail / 2)
    return _lattice_price(binomial_unit(event, tail / 2), event, shift, tail / 2)


@gaussian_price.register
def _(event: events.ShuffledGaussianEvent, tail: float) -> Price:
    """Shuffling is post-processing of the local reports: mu = Delta_2 / sigma, without amplification."""
    return Price(mu=event.sensitivity / event.std, tail=event.tail)


@gaussian_price.register
def _(event: events.RecordEvent, tail: float) -> Price:
    """By itself."""
    return gaussian_price(event.event, tail)


def unrounded(event: events.Event, tail: float) -> float:
    """What share of a release's mu the change of the data has; the rest is that of rounding, whatever they are."""
    event = events.plain(event)
    if isinstance(event, events.BinomialEvent):
        return event.shift / rounding.composable_shift(event.shift, event.dim, tail / 2) if event.rounded else 1.0
    if not isinstance(event, events.GaussianEvent | events.ContinualEvent):
        raise UnknownEvent(f"no part of {type(event).__name__} is known to be rounding: {event!r}")
    change, touched = _moved(event)
    return change / (change + event.grid * math.sqrt(touched))


def _moved(event: events.GaussianEvent | events.ContinualEvent) -> tuple[float, int]:
    """By how much a person moves a release in l2, and how many numbers of it."""
    if isinstance(event, events.GaussianEvent):
        return event.sensitivity, event.dim
    factors, often = event.factorisation, event.participations
    return event.sensitivity * factors.sensitivity(often), event.dim * factors.releases(often)


def binomial_unit(event: events.BinomialEvent, tail: float) -> lattice.LatticePrice | None:
    """Theorem A for the event's noise, or None where its reach is too short for the event's shifts."""
    try:
        unit = lattice.binomial_price(event.trials, event.probability, _cut(tail / event.dim))
    except CalibrationError:
        return None
    return unit if event.reach <= unit.reach else None


def _lattice_price(
    unit: lattice.LatticePrice | None, event: events.BinomialEvent, shift: float, rounding_tail: float
) -> Price:
    if unit is None:
        return NO_PRICE
    return Price(mu=unit.mu * shift, tail=rounding_tail + event.dim * unit.tail + event.tail)


def _discrete_gaussian(std: float, shift: float, *, touched: int, tail: float) -> Price:
    try:
        unit = lattice.discrete_gaussian_price(std, _cut(tail / touched))
    except CalibrationError:
        return NO_PRICE
    if shift > unit.reach:
        return NO_PRICE
    return Price(mu=unit.mu * shift, tail=touched * unit.tail)


def _cut(tail: float) -> float:
    """zmax with Phi(-zmax) <= tail, rounded up to a quarter so that prices can be remembered."""
    return math.ceil(-4 * float(special.ndtri(min(max(tail, 1e-300), 0.1)))) / 4


@singledispatch
def concentrated_price(event: events.Event) -> float:
    """rho of `event` in zCDP, mu^2/2 for every kind of Gaussian; infinity where the release has none."""
    raise UnknownEvent(f"no zCDP price is known for {type(event).__name__}: {event!r}")


@concentrated_price.register
def _(event: events.NothingEvent) -> float:
    return 0.0


@concentrated_price.register(events.ClearEvent)
@concentrated_price.register(events.BinomialEvent)
def _(event: events.Event) -> float:
    """Binomial noise has bounded support: its Renyi divergence is infinite."""
    return math.inf


@concentrated_price.register(events.GaussianEvent)
@concentrated_price.register(events.ContinualEvent)
def _(event: events.GaussianEvent | events.ContinualEvent) -> float:
    """A discrete Gaussian is (shift^2 / 2 std^2)-zCDP for integer shifts (Canonne, Kamath and Steinke 2020, Thm 4)."""
    change, touched = _moved(event)
    return (change + event.grid * math.sqrt(touched)) ** 2 / (2 * event.std**2)


@concentrated_price.register
def _(event: events.DiscreteGaussianEvent) -> float:
    return event.shift**2 / (2 * event.std**2)


@concentrated_price.register(events.LaplaceEvent)
@concentrated_price.register(events.DiscreteLaplaceEvent)
@concentrated_price.register(events.CapEvent)
def _(event: events.Event) -> float:
    """Of anything with that pure epsilon (calibration.md F)."""
    return pure_rho(pure_price(event))


@concentrated_price.register
def _(event: events.RecordEvent) -> float:
    """By itself."""
    return concentrated_price(event.event)


@concentrated_price.register
def _(event: events.ShuffledGaussianEvent) -> float:
    return math.inf if event.tail > 0 else (event.sensitivity / event.std) ** 2 / 2


@singledispatch
def pure_price(event: events.Event) -> float:
    """Pure epsilon of `event`; infinity where it is not pure."""
    raise UnknownEvent(f"no pure price is known for {type(event).__name__}: {event!r}")


@pure_price.register
def _(event: events.NothingEvent) -> float:
    return 0.0


@pure_price.register
def _(event: events.LaplaceEvent) -> float:
    """Delta_1 / scale; on a grid, rounding adds at most one step per coordinate."""
    return (event.sensitivity + event.grid * event.dim) / event.scale


@pure_price.register
def _(event: events.DiscreteLaplaceEvent) -> float:
    return event.shift / event.scale


@pure_price.register
def _(event: events.CapEvent) -> float:
    """Of the worst two directions, for what the candidates really are (calibration.md D.3)."""
    return caps.epsilon(event)


@pure_price.register(events.ClearEvent)
@pure_price.register(events.GaussianEvent)
@pure_price.register(events.DiscreteGaussianEvent)
@pure_price.register(events.ContinualEvent)
@pure_price.register(events.BinomialEvent)
@pure_price.register(events.ShuffledGaussianEvent)
@pure_price.register(events.RecordEvent)
def _(event: events.Event) -> float:
    return math.inf
