"""Phased elimination with a distributed population (the DPE family)."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandanna import validation
from bandanna.device.domain import Box, Estimate, Statistic, check_all_finite
from bandanna.errors import (
    CalibrationError,
    CommunicationWarning,
    InvalidArgument,
    InvalidBudget,
    OutsideTheorem,
    ValueSummary,
)
from bandanna.numeric.rng import DeviceRandomness
from bandanna.policies import regret_bounds
from bandanna.policies.algorithm import PURE, register_algorithm
from bandanna.policies.base import AssignedArms, Execution, PlayedRounds, Policy, SumQuery
from bandanna.policies.design import (
    Design,
    check_arms_matrix,
    check_unit_ball,
    find_cached_design,
    near_optimal_design,
    optimal_design,
    support_limit,
)
from bandanna.policies.regret_bounds import BoundCalls, RunSetting
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, PureDP
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.mixers import describe_shuffler_view
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.spherical_cap import LocalUnit
from bandanna.storage.encoding import stored_as
from bandanna.types import Floats, Ints

PROTECTS = "a client's local rewards"

_DIRECTIONS = "a random direction from every client, or a noisy average in phases with one action"
_ROOM = 1e-3  # phases of other sizes may cost so much more than those at the ends
_ALGORITHM_DEFAULTS: dict[str, Any] = {"paper": "001", "protects": "local rewards"}
_APPROX = ("epsilon", "delta", "calibration")
_DESIGNS: dict[str, Callable[[Floats], Design]] = {"near": near_optimal_design, "optimal": optimal_design}
_MOST_CLIENTS = 62  # log2: numbers of clients are 64-bit integers


@stored_as("PhasedEliminationState")
@dataclass(frozen=True, kw_only=True)
class PhasedEliminationState:
    """One run: the actions, those that may still be the best, and the number of the next phase."""

    arms: Floats  # (K, d)
    active: Ints  # indices of the actions that are left, increasing
    number: int = 1  # l
    design: Design | None = None  # of the active actions, where it is known from the phase before


@dataclass(frozen=True, kw_only=True)
class Phase(AssignedArms):
    """One phase: `arms` are the indices of the played actions, (s,), and `plays` is T_l."""

    gain: Floats  # (active, s): least-squares estimates of the active actions are gain @ averages
    design: Design | None  # None: nothing but the action 0 is left

    @property
    def level(self) -> int:
        return self.number + 1

    @property
    def answers(self) -> int:
        """Number of reports: one for each client, or for each round."""
        return int(self.plays.sum()) if self.clients is None else self.clients


@register_algorithm("DPE", paper="001")
@register_algorithm(
    "CDP-DPE", **_ALGORITHM_DEFAULTS, trust="central", guarantee="central DP or zCDP", options=(*_APPROX, "rho")
)
@register_algorithm(
    "LDP-DPE", **_ALGORITHM_DEFAULTS, trust="local", guarantee="local DP or zCDP", options=(*_APPROX, "rho", "protocol")
)
@register_algorithm("SDP-DPE", **_ALGORITHM_DEFAULTS, trust="shuffle", guarantee="shuffle DP", options=_APPROX)
@register_algorithm(
    "Laplace-DPE",
    **_ALGORITHM_DEFAULTS,
    trust="central",
    guarantee="central DP, pure",
    options=PURE,
    spends={"delta": 0.0},
)
@register_algorithm("DPE-FixedU", paper="001", defaults={"clients": 97})
@register_algorithm("PE", paper="001", defaults={"per_round": True})
@stored_as("PhasedElimination")
@dataclass(frozen=True, kw_only=True)
class PhasedElimination(Policy[PhasedEliminationState]):
    """Phased elimination over a finite set of actions with fresh clients in every phase: DPE and its private forms.

    1. The server takes a near-G-optimal design pi of the active actions: x is played T(x) = ceil(2^l pi(x)) times by
       each of ceil(2^{alpha l}) clients (`episode`).
    2. Each client reports its average reward of every played action, clipped to [-B, B] (`report`).
    3. The server queries the sum, fits theta by least squares, and drops the actions whose value is more than twice the
       width below the largest (`learn`).

    A phase that the horizon cuts short is not released. Reference: Li, Zhou and Ji 2024 [001], Algorithm 1. Deviations:
    widths from the design and noise in use; tight noise; random directions; discrete Laplace noise for delta = 0.

    Parameters
    ----------
    dim, horizon
        Features of an action, and number of rounds.
    privacy
        `bd.none()`, `bd.central(...)` (delta=0.0: pure), `bd.local(...)` or `bd.shuffle(...)`. Local reports are random
        directions if these have less noise than Gaussian reports, unless `protocol` or `confidence="paper"` says
        otherwise.
    alpha
        A larger alpha means more clients per phase, less regret, and more communication.
    clients
        A fixed number of clients in every phase instead (DPE-FixedU).
    per_round
        Every round has a client of its own, who reports one reward in the clear (PE).
    sigma
        Standard deviation of clients from the global model.
    noise
        Sub-Gaussian constant of a local reward.
    bound
        B. The privacy noise scales with it.
    failure
        Probability with which a width may fail, per action and phase. None: 1/(K T).
    confidence
        "exact": widths of the design and noise in use. "paper": as printed.
    width
        Factor of the width; 1 is the theorem. Privacy does not depend on it.
    design
        "near": few actions, g <= 2d. "optimal": g <= 1.001 d, up to d(d+1)/2 actions.
    """

    trusts = ("none", "central", "local", "shuffle")
    execution = Execution(player="population")

    dim: int
    horizon: int
    privacy: Privacy
    alpha: float = 0.8
    clients: int | None = None
    per_round: bool = False
    sigma: float = 0.1
    noise: float = 1.0
    bound: float = 1.0
    failure: float | None = None
    confidence: str = "exact"
    width: float = 1.0
    design: str = "near"

    def episode(self, state: PhasedEliminationState) -> Phase:
        arms, scale = state.arms[state.active], 2**state.number  # h_l
        if arms.any():
            design = state.design or find_cached_design(_DESIGNS[self.design], arms)
            support, plays, z = design.support, design.plays(scale), design.coordinates
            gram = (z[support] * plays[:, None]).T @ z[support]  # V_l, in coordinates of the span
            gain = z @ np.linalg.solve(gram, (z[support] * plays[:, None]).T)  # b^T V_l^{-1} x T_l(x)
        else:  # nothing but the action 0 is left: play it
            design, support, plays = None, np.zeros(1, dtype=np.int64), np.array([scale])
            gain = np.zeros((len(arms), 1))
        return Phase(
            number=state.number - 1,
            arms=state.active[support],
            plays=plays,
            clients=None if self.per_round else self.count_clients(state.number),
            gain=gain,
            design=design,
        )

    def report(self, query: SumQuery, played: PlayedRounds, coins: DeviceRandomness) -> Statistic:
        domain, rows = query.protocol.domain, played.rewards
        if played.arms is not None:
            rows = np.where(query.at == played.arms[:, None], rows[:, None], 0.0)
        if rows.min() >= -self.bound and rows.max() <= self.bound:  # nothing to clip
            return domain.sealed(rows, clipped=np.zeros(rows.shape[:-2], dtype=np.int64), counts=played.counts)
        inside = domain.admit(rows)
        return domain.sealed(inside.values, clipped=inside.clipped, counts=played.counts)

    def learn(
        self, state: PhasedEliminationState, episode: Phase
    ) -> Generator[SumQuery, Estimate, PhasedEliminationState]:
        if episode.level != state.number:
            raise InvalidArgument("phase.number", episode.level, f"{state.number}, the phase planned from this state")
        released = yield SumQuery(protocol=self.protocol(episode), at=episode.arms)
        averages = released.total / (episode.plays if self.per_round else episode.answers)
        if averages.shape != episode.arms.shape:
            allowed = f"an array of shape {episode.arms.shape}, one average for each action of the phase"
            raise InvalidArgument("averages", ValueSummary.of(averages), allowed)
        check_all_finite("averages", averages)
        estimates = episode.gain @ averages
        kept = estimates.max() - estimates <= 2 * self.compute_width(state, episode)
        same = episode.design if kept.all() else None
        return replace(state, active=state.active[kept], number=state.number + 1, design=same)

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "dim", "horizon")
        self._check_privacy_model()
        check_phase_privacy(self.privacy)
        last = max(1, self.phases)
        if validation.positive("alpha", self.alpha) * last > _MOST_CLIENTS:
            hint = f"Phase {last} would have more than 2^{_MOST_CLIENTS} clients"
            raise InvalidArgument("alpha", self.alpha, f"at most {_MOST_CLIENTS / last:.4g}", hint)
        validation.set_validated(self, validation.positive, "noise", "bound")
        validation.set_validated(self, validation.non_negative, "sigma", "width")
        if self.clients is not None:
            least = 2 if self.privacy.model == "shuffle" else 1
            validation.set_validated(self, validation.integer, "clients", least=least)
        if self.failure is not None:
            validation.set_validated(self, validation.open_probability, "failure")
        validation.one_of("confidence", self.confidence, ("exact", "paper"))
        validation.one_of("design", self.design, ("near", "optimal"))
        if self.confidence == "paper" and self.privacy.noisy:
            self._check_printed()
        if self.per_round and self.privacy.noisy:
            raise InvalidArgument("per_round", True, "False with privacy", "Single rewards are sent without noise")

    def _check_printed(self) -> None:
        if self.privacy.model == "local" and self.privacy.protocol in ("unit", "auto"):
            hint = 'The printed width is that of Gaussian reports: use bd.local(protocol="gaussian")'
            raise InvalidArgument("confidence", self.confidence, '"exact"', hint)
        if self.dim < 2:
            hint = "S = 4 d log log d + 16 is not defined for d = 1 [001, Thm 5.2]"
            raise OutsideTheorem("dim", self.dim, 'at least 2 with confidence="paper"', hint)

    def count_clients(self, number: int) -> int:
        """Return |U_l| = ceil(2^{alpha l}), unless every round has a client of its own."""
        if self.clients is not None:
            return self.clients
        return max(2, math.ceil(2 ** (self.alpha * number) * (1 - 1e-12)))

    @property
    def phases(self) -> int:
        """Largest number of phases that the horizon can complete."""
        return max(0, (self.horizon + 2).bit_length() - 2)

    @property
    def clients_needed(self) -> int:
        """Least population, since each client is in one phase."""
        if self.per_round:
            return self.horizon
        return sum(self.count_clients(number) for number in range(1, self.phases + 1))

    @cached_property
    def guarantee(self) -> Guarantee:
        most = max(self.count_clients(1), self.count_clients(max(1, self.phases)))
        return compute_promised_guarantee(
            self.reports, most_actions=self._most_actions, most_clients=most, bound=self.bound
        )

    @cached_property
    def reports(self) -> Privacy:
        if self.confidence == "paper":
            return self.privacy.with_default_protocol("gaussian")
        return choose_local_protocol(self.privacy, most_actions=self._most_actions, bound=self.bound)

    @property
    def _most_actions(self) -> int:
        return support_limit(self.dim) if self.design == "near" else self.dim * (self.dim + 1) // 2

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> PhasedEliminationState:
        rows = check_unit_ball("arms", check_arms_matrix(np.zeros((0, self.dim)) if arms is None else arms))
        if rows.shape[1] != self.dim:
            raise InvalidArgument("arms", ValueSummary.of(rows), f"an array of shape (K, {self.dim})")
        return PhasedEliminationState(arms=rows, active=np.arange(len(rows)))

    def protocol(self, phase: Phase) -> BatchProtocol:
        """Return the protocol of a phase, checked against the guarantee."""
        size = len(phase.arms), phase.answers
        if size not in self._confirmed:
            protocol = phase_protocol_for(self.reports, actions=size[0], clients=size[1], bound=self.bound)
            check_promise(protocol, self.reports, self.guarantee)
            self._confirmed[size] = protocol
        return self._confirmed[size]

    @cached_property
    def _confirmed(self) -> dict[tuple[int, int], BatchProtocol]:
        return {}

    def compute_width(self, state: PhasedEliminationState, phase: Phase) -> float:
        log = math.log(len(state.arms) * self.horizon) if self.failure is None else math.log(1 / self.failure)
        known = Uncertainty(
            gain=phase.gain,
            plays=phase.plays,
            lengths=np.linalg.norm(state.arms[state.active], axis=1),
            played=np.linalg.norm(state.arms[phase.arms], axis=1),
            clients=phase.answers,
            sigma=self.sigma,
            noise=self.noise,
        )
        if self.per_round:
            single = float(np.max(known.one_by_one()))
            if self.confidence == "paper":
                single = 2 * self.dim * (self.noise**2 + self.sigma**2) / 2.0**phase.level
            return self.width * math.sqrt(2 * single * log)
        protocol = self.protocol(phase)
        if self.confidence == "paper":
            return self.width * printed_width(known, protocol, log, dim=self.dim, scale=2.0**phase.level)
        return self.width * exact_width(known, protocol, log)

    def best(self, snapshot: PhasedEliminationState, contexts: Floats) -> Ints:
        return np.full(len(contexts), snapshot.active[0])

    @classmethod
    def _regret_bounds(cls, setting: RunSetting) -> BoundCalls:
        return regret_bounds.find_phased_elimination_bounds(setting)

    def _run_counts(self, state: PhasedEliminationState) -> dict[str, Ints]:
        return {"active": np.asarray(len(state.active))}


# Promises: clients are fresh in every phase, so each is in one release, and the promise is that of the dearest phase.


def check_phase_privacy(privacy: Privacy) -> Privacy:
    """Return a privacy that phases can keep, or refuse it."""
    if privacy.model == "shuffle" and privacy.protocol != "binomial":
        raise InvalidBudget("privacy", privacy, 'bd.shuffle(..., protocol="binomial")')
    if privacy.participations != 1:
        raise InvalidBudget("participations", privacy.participations, "1", "Every phase has new clients")
    if privacy.noisy and privacy.pure and (privacy.model != "central" or privacy.calibration == "paper"):
        raise InvalidBudget("delta", 0.0, "a number in (0, 1)", "Only bd.central with tight noise can have delta = 0")
    return privacy


def choose_local_protocol(privacy: Privacy, *, most_actions: int, bound: float) -> Privacy:
    """Choose how clients report in the local model, where the protocol is "default" or "auto".

    Random directions if the noise is tight and their largest standard deviation in any direction is below that of
    Gaussian reports; else Gaussian reports.
    """
    if privacy.model != "local" or not privacy.noisy or privacy.protocol not in ("default", "auto"):
        return privacy
    gaussian = replace(privacy, protocol="gaussian")
    if privacy.calibration == "paper" or privacy.budget is None:
        return gaussian
    domain = Box(dim=most_actions, low=-bound, high=bound)
    try:
        unit = LocalUnit.calibrate(domain=domain, budget=privacy.budget)
    except (CalibrationError, InvalidArgument):  # no directions of so few or so many numbers, or so small an epsilon
        return gaussian
    less = unit.std_along(1) < protocol_for(gaussian, domain, 1).std(1)
    return replace(privacy, protocol="unit") if less else gaussian


def phase_protocol_for(privacy: Privacy, *, actions: int, clients: int, bound: float) -> BatchProtocol:
    """Return the calibrated protocol for reports of `actions` averages in [-bound, bound]."""
    domain = Box(dim=actions, low=-bound, high=bound)
    if actions == 1 and privacy.protocol == "unit":
        return protocol_for(replace(privacy, protocol="gaussian"), domain, clients)
    if privacy.model != "shuffle":
        return protocol_for(privacy, domain, clients)
    with warnings.catch_warnings():  # messages are counted in every result
        warnings.simplefilter("ignore", CommunicationWarning)
        return protocol_for(privacy, domain, clients, quick=True)


@lru_cache(maxsize=256)
def compute_promised_guarantee(privacy: Privacy, *, most_actions: int, most_clients: int, bound: float) -> Guarantee:
    """Return the guarantee of every client, whatever the phase and its number of actions.

    With tight noise it is the budget, with printed noise the largest of the smallest and the largest phase.
    `check_promise` confirms it before a protocol runs. Nothing is promised against the shuffler; `exposed` is that of
    some phase.
    """
    printed = privacy.calibration == "paper"
    ends = printed or privacy.protocol == "unit"  # phases with one action are priced otherwise
    found = [
        phase_protocol_for(privacy, actions=actions, clients=max(2, clients), bound=bound).guarantee
        for clients in ({2, most_clients} if printed else {most_clients})
        for actions in ({1, most_actions} if ends else {most_actions})
    ]
    stated = max(found, key=lambda each: each.exposed)
    epsilon, delta = max(each.epsilon for each in found), max(each.delta for each in found)
    rho = max(each.rho for each in found) * (1 + _ROOM)
    if not printed and isinstance(privacy.budget, ApproxDP | PureDP) and privacy.noisy:
        epsilon = privacy.budget.epsilon
    else:
        epsilon *= 1 + _ROOM
    if not printed and isinstance(privacy.budget, ZCDP):
        rho = privacy.budget.rho
    observers = _observers(privacy)
    promised = replace(stated, epsilon=epsilon, delta=delta, rho=rho, protects=PROTECTS)
    return replace(promised, observers=observers, shuffler=None)


def check_promise(protocol: BatchProtocol, privacy: Privacy, promised: Guarantee) -> None:
    """Refuse a protocol that the accountant does not find within the promise."""
    if not privacy.noisy or privacy.budget is None:
        return
    stated = ApproxDP(epsilon=max(promised.epsilon, sys.float_info.min), delta=promised.delta)
    kept = accountant.satisfies(protocol.event, stated) and accountant.rho(protocol.event) <= promised.rho
    if not kept or (privacy.calibration == "tight" and not accountant.satisfies(protocol.event, privacy.budget)):
        raise CalibrationError(f"{protocol.name} for {protocol.domain} is not within the promise: {promised}")


def _observers(privacy: Privacy) -> tuple[tuple[str, str], ...]:
    everybody = ("the public", "the chosen arms")
    return {
        "none": (("the server", "every client's averages"), everybody),
        "central": (
            ("the trusted server", "every client's averages"),
            ("the public", "noisy sums, and the chosen arms"),
        ),
        "local": (
            ("the server", _DIRECTIONS if privacy.protocol == "unit" else "every client's noisy averages"),
            everybody,
        ),
        "shuffle": (
            ("the shuffler", describe_shuffler_view(privacy.noise, "counts", "averages", who="client")),
            ("the server and the public", "the totals of a phase, and the chosen arms"),
        ),
    }[privacy.model]


# Widths


@dataclass(frozen=True, kw_only=True)
class Uncertainty:
    """The errors of a phase with K active actions, s of them played (docs/appendix/proofs.md, H).

    With `gain` c, `clients` U, `plays` T, `noise` tau and s the standard deviation of the noise on a mean,

        v_b = tau^2/U sum_x c_bx^2/T(x) + sigma^2 |b|^2/U + s^2 sum_x c_bx^2,     W = max_b sqrt(2 v_b log(1/beta))
    """

    gain: Floats  # (K, s): c
    plays: NDArray[np.int64]  # (s,)
    lengths: Floats  # (K,): |b|
    played: Floats  # (s,): |x|
    clients: int
    sigma: float
    noise: float

    def averaged(self) -> Floats:
        """Return v_b without privacy, (K,), where every client plays all actions."""
        rewards = self.noise**2 * np.sum(self.gain**2 / self.plays, axis=1)
        return np.asarray((rewards + self.sigma**2 * self.lengths**2) / self.clients)

    def one_by_one(self) -> Floats:
        """Return v_b where every round has its own client."""
        return np.asarray(np.sum(self.gain**2 / self.plays * (self.noise**2 + self.sigma**2 * self.played**2), axis=1))


def exact_width(known: Uncertainty, protocol: BatchProtocol, log: float) -> float:
    """Return W for the noise of the protocol; `log` is log(1/beta)."""
    variances = known.averaged()
    squares = np.sum(known.gain**2, axis=1)
    if protocol.laplace:
        scale = math.prod(protocol.laplace) / known.clients
        peaks = scale * np.maximum(np.max(np.abs(known.gain), axis=1), 1e-100)  # the action 0 has no error at all
        return _laplace_width(variances, peaks, scale**2 * squares / peaks**2, log)
    if isinstance(protocol, LocalUnit):
        peaks = protocol.length * np.maximum(np.sqrt(squares), 1e-100) / known.clients  # a_b
        terms = known.clients * (protocol.std_along(1) / protocol.length) ** 2
        return _direction_width(variances, peaks, terms, log)
    std = protocol.std(known.clients) / known.clients
    return math.sqrt(2 * float(np.max(variances + std**2 * squares)) * log)


def _laplace_width(variances: Floats, peaks: Floats, terms: Floats, log: float) -> float:
    shares = np.linspace(0.02, 0.98, 49)  # t a_b
    t = shares / peaks[:, None]  # (K, 49)
    widths = (log + t**2 * variances[:, None] / 2 - terms[:, None] * np.log1p(-(shares**2))) / t
    return float(np.max(widths.min(axis=1)))


def _direction_width(variances: Floats, peaks: Floats, terms: float, log: float) -> float:
    """Bound the width by Bennett on a grid of multipliers t with y = t a_b <= `most`."""
    most = np.sqrt(2 * log / (terms + variances / peaks**2))  # (K,): the best y if exp(y) were 1 + y + y^2/2
    y = most[:, None] * np.geomspace(0.01, 1.0, 129)  # (K, 129)
    t = y / peaks[:, None]
    widths = (log + t**2 * variances[:, None] / 2 + terms * (np.expm1(y) - y)) / t
    return float(np.max(widths.min(axis=1)))


def printed_support(dim: int) -> float:
    """Return S = 4 d log log d + 16, as printed and not rounded."""
    return 4 * dim * math.log(math.log(dim)) + 16


def printed_width(known: Uncertainty, protocol: BatchProtocol, log: float, *, dim: int, scale: float) -> float:
    """Return W as printed; `scale` is h."""
    std = protocol.std(known.clients) / known.clients
    private = 2 * std * math.sqrt(printed_support(dim) * dim) if std else 0.0  # [001, Thm 5.2]
    rewards = known.noise * math.sqrt(2 * dim / (known.clients * scale))
    return (rewards + known.sigma / math.sqrt(known.clients) + private) * math.sqrt(2 * log)  # [001, (3)]
