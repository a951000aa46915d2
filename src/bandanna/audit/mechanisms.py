"""Mechanisms and protocols as targets of an audit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import stats

from bandanna import validation
from bandanna.audit import exact
from bandanna.audit.exact import LawPair, cap_pair
from bandanna.audit.releases import (
    N_SOURCES,
    RecordingNoise,
    ReleasePair,
    ReleaseScript,
    bypasses_noise,
    farthest_points,
    ignores_source,
    measure_moves,
)
from bandanna.audit.replay import choose_worst
from bandanna.audit.sampled_bounds import Claim, make_claim
from bandanna.audit.targets import SINGLE, Target
from bandanna.device.domain import Ball
from bandanna.device.noise import FastNoise
from bandanna.errors import InvalidBudget
from bandanna.mechanisms.continual import ContinualGaussian
from bandanna.mechanisms.noise import (
    BinomialMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    Mechanism,
    PrivUnit,
    RandomizedResponse,
)
from bandanna.numeric import search
from bandanna.privacy import accountant, events, gdp
from bandanna.privacy.budgets import ApproxDP, PureDP
from bandanna.privacy.factorisation import factorise
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.randomized_response import LocalBits, LocalSigns
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit
from bandanna.types import Floats

# Mechanisms: two values as far apart as their event allows, released often; enumerated where finite


_STEPS = 20  # integers that neighbours of integer noise differ by
_STREAM = 16  # steps of a continual sum
_LOOKED_AT = (f"one pair of values, as far apart as they may be; noise of {N_SOURCES} sources",)
_NOT_LOOKED_AT = ("other values", "later releases", "the secure noise source")


def target_from_mechanism(
    mechanism: Mechanism | ContinualGaussian,
    *,
    name: str | None = None,
    epsilon: float | None = None,
    delta: float = 1e-5,
) -> Target:
    """Make the target of a mechanism, at its stated or a claimed epsilon at delta."""
    event = mechanism.event
    if epsilon is None:
        epsilon = accountant.epsilon(event, delta)
    claim = make_claim(event, epsilon=epsilon, delta=delta)
    if isinstance(mechanism, ContinualGaussian):
        return _stream_target(mechanism, name or "ContinualGaussian", claim)
    values = neighbouring_values(mechanism)
    moves = measure_moves(lambda swapped, spy: mechanism.release(values[int(swapped)], spy)) or ([], [])

    gaussian = bool(moves[0]) and not moves[1]
    beside = gaussian and bypasses_noise(lambda swapped, spy: mechanism.release(values[int(swapped)], spy))
    same = ignores_source(lambda source: mechanism.release(values[0], source))

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        value = np.broadcast_to(values[int(swapped)], (runs, mechanism.dim))
        if same:  # noise that is the same in every run is another in every row of one
            each = zip(value, rng.spawn(runs), strict=True)
            released = np.stack([mechanism.release(row, FastNoise(own)) for row, own in each]).astype(float)
        else:
            released = np.asarray(mechanism.release(value, FastNoise(rng)), dtype=float)
        return np.asarray(released @ (values[0] - values[1]).astype(float)[:, None])

    law = enumerate_laws(mechanism)
    return Target(
        name=name or type(mechanism).__name__,
        claim=claim,
        draw=draw,
        scored=True,
        mu=exact.separation(moves[0]) if gaussian and not beside else None,
        pure=exact.l1_loss(moves[1]) if moves[1] and not moves[0] else None,
        pairs=() if law is None else (law,),
        most=SINGLE if same else None,
        looked=_LOOKED_AT,
        unseen=_NOT_LOOKED_AT,
    )


def neighbouring_values(mechanism: Mechanism) -> Floats:
    """Return two values that neighbours may have, (2, dim)."""
    event, unit = mechanism.event, np.eye(mechanism.dim)[0]
    if isinstance(mechanism, RandomizedResponse):
        return np.stack([np.ones(mechanism.dim), np.zeros(mechanism.dim)])
    if isinstance(event, events.CapEvent):
        return np.stack([unit, -unit])
    if isinstance(event, events.GaussianEvent | events.LaplaceEvent):
        return np.stack([event.sensitivity * unit, 0.0 * unit])
    if isinstance(event, events.DiscreteGaussianEvent | events.DiscreteLaplaceEvent | events.BinomialEvent):
        shift = math.floor(min(event.shift, getattr(event, "reach", math.inf)))
        return (np.stack([unit, 0.0 * unit]) * shift).astype(np.int64)
    raise InvalidBudget(
        "mechanism", type(mechanism).__name__, "a mechanism whose event states the distance of neighbours"
    )


def enumerate_laws(mechanism: Mechanism) -> LawPair | None:
    """Return the neighbours' exact laws of one integer or direction, None for other mechanisms."""
    event = mechanism.event
    if isinstance(event, events.CapEvent):
        one, two = neighbouring_values(mechanism)
        return cap_pair(event, one, two)
    if mechanism.dim != 1:
        return None
    if isinstance(mechanism, RandomizedResponse):
        lie = mechanism.lie
        return np.array([lie, 1 - lie]), np.array([1 - lie, lie])
    if isinstance(event, events.BinomialEvent) and not event.rounded:
        shift, k = math.floor(event.shift), np.arange(event.trials + 1)
        mass, nothing = stats.binom.pmf(k, event.trials, event.probability), np.zeros(shift)
    elif isinstance(event, events.DiscreteGaussianEvent):
        shift, reach = math.floor(event.shift), math.ceil(40 * event.std)
        weights = np.exp(-((np.arange(-reach, reach + 1) / event.std) ** 2) / 2)
        mass, nothing = weights / weights.sum(), np.zeros(shift)
    elif isinstance(event, events.DiscreteLaplaceEvent):
        return _laplace_law(event.scale, 0), _laplace_law(event.scale, math.floor(event.shift))
    else:
        return None
    return np.concatenate([nothing, mass]), np.concatenate([mass, nothing])


def _laplace_law(scale: float, value: int) -> Floats:
    """Return the law of value + Z, with the mass beyond 40 scales at the ends."""
    reach, q = math.ceil(40 * scale), math.exp(-1 / scale)
    k = np.arange(-reach, reach + 1) - value
    law = (1 - q) / (1 + q) * q ** np.abs(k)
    law[0], law[-1] = q ** (reach + value) / (1 + q), q ** (reach - value) / (1 + q)
    return np.asarray(law)


def _stream_target(mechanism: ContinualGaussian, name: str, claim: Claim) -> Target:
    horizon, dim = mechanism.factorisation.horizon, mechanism.dim
    first = mechanism.sensitivity * np.eye(dim)[0]

    def run(source: FastNoise, swapped: bool, replicates: tuple[int, ...]) -> list[Floats]:
        state, shown = mechanism.begin(replicates), []
        for step in range(horizon):
            value = first if step == 0 and not swapped else np.zeros(dim)
            state, estimate = mechanism.step(state, np.broadcast_to(value, (*replicates, dim)), source)
            shown.append(np.asarray(estimate))
        return shown

    found = measure_moves(lambda swapped, spy: run(spy, swapped, ()))
    assert found is not None
    moves = found[0]
    beside = bypasses_noise(lambda swapped, spy: run(spy, swapped, ()))  # what is seen is not made of what was noised
    if beside or ignores_source(lambda source: run(source, False, ())):

        def seen(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
            each = (run(FastNoise(own), swapped, ()) for own in rng.spawn(runs))
            return np.stack([[float(shown @ first) for shown in steps] for steps in each])

        return Target(name=name, claim=claim, draw=seen, most=SINGLE, looked=_LOOKED_AT, unseen=_NOT_LOOKED_AT)

    def draw(swapped: bool, runs: int, rng: np.random.Generator) -> Floats:
        spy = RecordingNoise(rng, weights=[move / std**2 for move, std in moves])
        run(spy, swapped, (runs,))
        return np.asarray(spy.score)[:, None]

    return Target(
        name=name,
        claim=claim,
        draw=draw,
        scored=True,
        mu=exact.separation(moves),
        looked=_LOOKED_AT,
        unseen=_NOT_LOOKED_AT,
    )


def _calibrate_binomial(epsilon: float, delta: float) -> BinomialMechanism:
    def made(trials: float) -> BinomialMechanism:
        return BinomialMechanism(trials=math.ceil(trials), shift=float(_STEPS), reach=_STEPS, rounded=False)

    return made(search.find_least(lambda trials: accountant.epsilon(made(trials).event, delta) <= epsilon, 64.0, 1e7))


def _continual_target(kind: str) -> Callable[[float, float], ContinualGaussian]:
    def make(epsilon: float, delta: float) -> ContinualGaussian:
        factors = factorise(kind, horizon=_STREAM)
        std = factors.sensitivity() / gdp.mu(epsilon, delta)
        return ContinualGaussian(factorisation=factors, std=std * (1 + 1e-4), sensitivity=1.0)

    return make


MECHANISMS: dict[str, Callable[[float, float], Mechanism | ContinualGaussian]] = {
    "gaussian": lambda epsilon, delta: GaussianMechanism(std=(1 + 1e-4) / gdp.mu(epsilon, delta), sensitivity=1.0),
    "laplace": lambda epsilon, delta: LaplaceMechanism(scale=(1 + 1e-4) / epsilon, sensitivity=1.0),
    "discrete_gaussian": lambda epsilon, delta: DiscreteGaussianMechanism(
        std=_STEPS * 1.01 / gdp.mu(epsilon, delta), shift=float(_STEPS)
    ),
    "discrete_laplace": lambda epsilon, delta: DiscreteLaplaceMechanism(
        scale=_STEPS * (1 + 1e-12) / epsilon, shift=float(_STEPS)
    ),
    "binomial": _calibrate_binomial,
    "randomized_response": lambda epsilon, delta: RandomizedResponse(epsilon=epsilon),
    "priv_unit": lambda epsilon, delta: PrivUnit.calibrate(dim=3, epsilon=epsilon),
    "continual_blt": _continual_target("blt"),
    "continual_tree": _continual_target("tree"),
}
PURE = ("laplace", "discrete_laplace", "randomized_response", "priv_unit")


def mechanism_target(name: str, *, epsilon: float, delta: float) -> Target:
    """Make the target of a mechanism by name, calibrated for a budget."""
    validation.one_of("mechanism", name, tuple(MECHANISMS))
    return target_from_mechanism(MECHANISMS[name](epsilon, delta), name=name, delta=0.0 if name in PURE else delta)


# Protocols: a batch or a stream in which one user has either of two statistics that are farthest apart


BATCH, STEPS = 8, 8

_PROTOCOLS_UNSEEN = ("other positions and statistics", "later batches", "the secure noise source")


def target_from_protocol(
    protocol: Protocol,
    *,
    name: str | None = None,
    users: int = BATCH,
    steps: int = STEPS,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Target:
    """Make the target of a protocol for one participation, at its stated guarantee or a claimed epsilon.

    All other users have the neighbour's statistic, among which a different report is seen best.
    """
    scripts = [ReleaseScript(releases=(each,)) for each in _make_release_pairs(protocol, users=users, steps=steps)]
    stated = protocol.guarantee
    claimed = stated.epsilon if epsilon is None else epsilon
    at = stated.delta if delta is None else delta
    count = f"{users} users" if isinstance(protocol, BatchProtocol) else f"{steps} users of a stream"
    what = (
        f"the first, the middle and the last of {count}, with pairs of statistics as far apart as the domain is wide "
        "among others of the same, and with half of that distance among zeros",
        f"all fields of the estimates; noise of {N_SOURCES} sources, its scale, and noise used twice",
    )
    target, _ = target_from_scripts(scripts, event=protocol.event, epsilon=claimed, delta=at)
    return replace(target, name=name or protocol.name, looked=what, unseen=_PROTOCOLS_UNSEEN)


def target_from_scripts(
    scripts: Sequence[ReleaseScript], *, epsilon: float, delta: float, event: events.Event | None = None
) -> tuple[Target, int | None]:
    """Make a target, without a name, from releases to several pairs of neighbours, the usual pair first.

    Also return the attacked pair's index; None if no noise hides the user.
    """
    if (bare := next((each.bare for each in scripts if each.bare), None)) is not None:
        return Target(name="", claim=Claim(epsilon=epsilon, delta=delta), leaks=bare[1], why=bare[0]), None
    place = choose_worst(scripts, epsilon=epsilon, delta=delta)
    script = scripts[place]
    target = Target(
        name="",
        claim=make_claim(event or script.event, epsilon=epsilon, delta=delta),
        draw=script.draw,
        scored=script.scored,
        chunk=script.chunk,
        mu=script.mu,
        pure=script.pure,
        pairs=script.pairs,
        most=SINGLE if script.alone else None,
    )
    return target, place


def _make_release_pairs(protocol: Protocol, *, users: int, steps: int) -> list[ReleasePair]:
    """Return neighbours: three positions with the farthest statistics, and the first also with the origin."""
    one, two = farthest_points(protocol.domain)
    origin = np.broadcast_to(protocol.domain.origin, one.shape)
    count = users if isinstance(protocol, BatchProtocol) else steps
    places = dict.fromkeys((0, count // 2, count - 1))
    pairs = [(place, one, two) for place in places] + [(0, one, np.array(origin, dtype=float))]
    releases = []
    for place, mine, other in pairs:
        batch = np.tile(other, (count, 1))
        changed = np.array(batch)
        changed[place] = mine
        if isinstance(protocol, BatchProtocol):
            releases.append(ReleasePair(protocol=protocol, one=(changed,), two=(batch,)))
        else:
            rows = [tuple(each[step : step + 1] for step in range(count)) for each in (changed, batch)]
            releases.append(ReleasePair(protocol=protocol, one=rows[0], two=rows[1]))
    return releases


def _approx(epsilon: float, delta: float) -> ApproxDP:
    return ApproxDP(epsilon=epsilon, delta=delta)


_BALL = Ball(dim=2)
PROTOCOLS: dict[str, Callable[[float, float], Protocol]] = {
    "central_gaussian": lambda e, d: CentralGaussian.calibrate(domain=_BALL, budget=_approx(e, d)),
    "central_laplace": lambda e, d: CentralLaplace.calibrate(domain=_BALL, budget=PureDP(epsilon=e)),
    "central_continual": lambda e, d: CentralContinual.calibrate(domain=_BALL, budget=_approx(e, d), horizon=STEPS),
    "local_gaussian": lambda e, d: LocalGaussian.calibrate(domain=_BALL, budget=_approx(e, d)),
    "local_bits": lambda e, d: LocalBits.calibrate(budget=PureDP(epsilon=e)),
    "local_signs": lambda e, d: LocalSigns.calibrate(domain=_BALL, budget=PureDP(epsilon=e)),
    "local_unit": lambda e, d: LocalUnit.calibrate(domain=Ball(dim=3), budget=PureDP(epsilon=e)),
    "shuffle_gaussian": lambda e, d: ShuffleGaussian.calibrate(domain=_BALL, budget=_approx(e, d), batch=BATCH),
    "shuffle_binomial": lambda e, d: ShuffleBinomial.calibrate(domain=_BALL, budget=_approx(e, d), batch=BATCH),
    "shuffle_bits": lambda e, d: ShuffleBits.calibrate(budget=_approx(e, d), batch=BATCH),
    "concurrent_shuffle": lambda e, d: ConcurrentShuffle.calibrate(domain=_BALL, budget=_approx(e, d), horizon=STEPS),
}


def protocol_target(name: str, *, epsilon: float, delta: float) -> Target:
    """Make the target of a protocol by name, calibrated for a budget."""
    validation.one_of("protocol", name, tuple(PROTOCOLS))
    return target_from_protocol(PROTOCOLS[name](epsilon, delta), name=name)
