"""Phased elimination with fresh clients in every phase: DPE and its private forms, DP-DPE.

Phase l, h_l = 2^l, over the actions that may still be the best:

    pi_l      near-G-optimal design of the active actions, in their span; x is played T_l(x) = ceil(h_l pi_l(x)) times
    clients   ceil(2^{alpha l}) of them, each reports its average reward of every played action, privately
    estimate  V_l = sum_x T_l(x) x x^T,   theta_l = V_l^{-1} sum_x T_l(x) x y_l(x)
    leave     x with max_b <theta_l, b - x> > 2 W_l

A phase that the horizon cuts short is not released. Symbols: alpha `alpha`, sigma `sigma`, B `bound`, beta `failure`.
Privacy: a client is in one phase and sends one report; see `promise`.
Reference: Li, Zhou and Ji 2024 [001], Algorithm 1.
Deviations: W_l from the design and noise in use (`confidence="exact"`); tight noise; local reports may be random
directions; for delta = 0 the Laplace noise is discrete.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats, Ints
from bandanna.core.coins import Coins
from bandanna.core.domain import Statistic, all_finite
from bandanna.core.estimate import Estimate
from bandanna.design import Design, near_optimal_design, optimal_design, remembered, support_limit
from bandanna.design.span import arms_matrix, in_unit_ball
from bandanna.errors import InvalidArgument, OutsideTheorem
from bandanna.policies.base import Ask, Assigned, Played, Policy
from bandanna.policies.distributed.promise import check_model, choose_reports, confirm, promise, protocol_of
from bandanna.policies.distributed.width import Uncertainty, exact_width, printed_width
from bandanna.policies.named import PURE, algorithm
from bandanna.protocols.base import BatchProtocol
from bandanna.protocols.trust import Privacy
from bandanna.storage.declared import stored_as
from bandanna.theory import distributed
from bandanna.theory.settings import Found, Setting

_NAMED: dict[str, Any] = {"paper": "001", "protects": "local rewards"}
_APPROX = ("epsilon", "delta", "calibration")
_MOST_CLIENTS = 62  # log2: numbers of clients are 64-bit integers


@stored_as("PhasedEliminationState")
@dataclass(frozen=True, kw_only=True)
class State:
    """Of one run: the actions, which of them may still be the best, and the number of the next phase.

    There are no replicate axes: different runs have different actions left.
    """

    arms: Floats  # (K, d)
    active: Ints  # places of the actions that are left, increasing
    number: int = 1  # l
    design: Design | None = None  # of the active actions, where it is known from the phase before


@dataclass(frozen=True, kw_only=True)
class Phase(Assigned):
    """What is done in one phase: `arms` are the places of the played actions, (s,), and `plays` is T_l."""

    gain: Floats  # (active, s): least-squares estimates of the active actions are gain @ averages
    design: Design | None  # None: nothing but the action 0 is left

    @property
    def level(self) -> int:
        """l, from 1 on."""
        return self.number + 1

    @property
    def answers(self) -> int:
        """How many people answer: the clients, or one for every round."""
        return int(self.plays.sum()) if self.clients is None else self.clients


@algorithm("DPE", paper="001")
@algorithm("CDP-DPE", **_NAMED, trust="central", guarantee="central DP or zCDP", options=(*_APPROX, "rho"))
@algorithm("LDP-DPE", **_NAMED, trust="local", guarantee="local DP or zCDP", options=(*_APPROX, "rho", "protocol"))
@algorithm("SDP-DPE", **_NAMED, trust="shuffle", guarantee="shuffle DP", options=_APPROX)
@algorithm("Laplace-DPE", **_NAMED, trust="central", guarantee="central DP, pure", options=PURE, spends={"delta": 0.0})
@algorithm("DPE-FixedU", paper="001", defaults={"clients": 97})
@algorithm("PE", paper="001", defaults={"per_round": True})
@stored_as("PhasedElimination")
@dataclass(frozen=True, kw_only=True)
class PhasedElimination(Policy[State]):
    """Phased elimination over a finite set of actions with `dim` features, for `horizon` rounds.

    privacy     `bd.none()`, `bd.central(...)` (with delta=0.0: pure, by discrete Laplace noise), `bd.local(...)`,
                `bd.shuffle(...)`; local reports are random directions where these have less noise than Gaussian
                ones (`promise.choose_reports`), unless `protocol` or `confidence="paper"` says otherwise
    alpha       phase l has ceil(2^{alpha l}) clients: more clients, less regret, more communication
    clients     a fixed number of clients in every phase instead (DPE-FixedU)
    per_round   every round has a client of its own, who reports one reward in the clear (PE)
    sigma       how far clients are from the global model; 0: all are alike
    noise       sub-Gaussian constant of a local reward, B for rewards in [-B, B]
    bound       B: reports are clipped to [-B, B]; the privacy noise scales with it
    failure     probability with which a width may fail, per action and phase; None: 1/(K T)
    confidence  "exact": widths of the design and noise in use; "paper": as printed
    width       multiplier of the width: 1 is the theorem; privacy does not depend on it
    design      "near": few actions, g <= 2d; "optimal": g <= 1.001 d, up to d(d+1)/2 actions
    """

    trusts = ("none", "central", "local", "shuffle")
    player = "population"

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

    def __post_init__(self) -> None:
        require.store(self, require.whole, "dim", "horizon")
        self.check_trust()
        check_model(self.privacy)
        last = max(1, self.phases)
        if require.positive("alpha", self.alpha) * last > _MOST_CLIENTS:
            allowed = f"at most {_MOST_CLIENTS / last:.4g}: phase {last} would ask more than 2^{_MOST_CLIENTS} clients"
            raise InvalidArgument("alpha", self.alpha, allowed)
        require.store(self, require.positive, "noise", "bound")
        require.store(self, require.non_negative, "sigma", "width")
        if self.clients is not None:
            least = 2 if self.privacy.model == "shuffle" else 1
            require.store(self, require.whole, "clients", least=least)
        if self.failure is not None:
            require.store(self, require.chance, "failure")
        require.one_of("confidence", self.confidence, ("exact", "paper"))
        require.one_of("design", self.design, ("near", "optimal"))
        if self.confidence == "paper" and self.privacy.noisy:
            self._check_printed()
        if self.per_round and self.privacy.noisy:
            raise InvalidArgument("per_round", True, "False, or privacy none(): single rewards are sent in the clear")

    def _check_printed(self) -> None:
        """Refuse what the printed width of private phases does not cover."""
        if self.privacy.model == "local" and self.privacy.protocol in ("unit", "auto"):
            allowed = '"exact", or bd.local(protocol="gaussian"): the printed width is that of Gaussian reports'
            raise InvalidArgument("confidence", self.confidence, allowed)
        if self.dim < 2:
            allowed = 'at least 2 with confidence="paper": S = 4 d log log d + 16 is not defined for 1 [001, Thm 5.2]'
            raise OutsideTheorem("dim", self.dim, allowed)

    def clients_in(self, number: int) -> int:
        """|U_l| = ceil(2^{alpha l}); not of a policy with a client for every round."""
        if self.clients is not None:
            return self.clients
        return max(2, math.ceil(2 ** (self.alpha * number) * (1 - 1e-12)))

    @property
    def phases(self) -> int:
        """Most phases that the horizon can complete: each has at least 2^l rounds."""
        return max(0, (self.horizon + 2).bit_length() - 2)

    @property
    def clients_needed(self) -> int:
        """Most clients that the schedule can ask, each once: what a population must have."""
        if self.per_round:
            return self.horizon
        return sum(self.clients_in(number) for number in range(1, self.phases + 1))

    @cached_property
    def guarantee(self) -> Guarantee:
        """What every client is promised, whatever happens."""
        most = max(self.clients_in(1), self.clients_in(max(1, self.phases)))
        return promise(self.reports, most_actions=self._most_actions, most_clients=most, bound=self.bound)

    @cached_property
    def reports(self) -> Privacy:
        """`privacy`, with the protocol of local reports that was chosen."""
        if self.confidence == "paper":
            return self.privacy.preferring("gaussian")
        return choose_reports(self.privacy, most_actions=self._most_actions, bound=self.bound)

    @property
    def _most_actions(self) -> int:
        """Most actions that a phase can play."""
        return support_limit(self.dim) if self.design == "near" else self.dim * (self.dim + 1) // 2

    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> State:
        """All actions, (K, d) of norm at most 1, may be the best."""
        rows = in_unit_ball("arms", arms_matrix(np.zeros((0, self.dim)) if arms is None else arms))
        if rows.shape[1] != self.dim:
            raise InvalidArgument("arms", f"array of shape {rows.shape}", f"shape (K, {self.dim})")
        return State(arms=rows, active=np.arange(len(rows)))

    def episode(self, state: State) -> Phase:
        """The next phase."""
        arms, scale = state.arms[state.active], 2**state.number  # h_l
        if arms.any():
            design = state.design or remembered(_DESIGNS[self.design], arms)
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
            clients=None if self.per_round else self.clients_in(state.number),
            gain=gain,
            design=design,
        )

    def protocol(self, phase: Phase) -> BatchProtocol:
        """How the phase's reports are collected, confirmed to be within the guarantee."""
        size = len(phase.arms), phase.answers
        if size not in self._confirmed:
            protocol = protocol_of(self.reports, actions=size[0], clients=size[1], bound=self.bound)
            confirm(protocol, self.reports, self.guarantee)
            self._confirmed[size] = protocol
        return self._confirmed[size]

    @cached_property
    def _confirmed(self) -> dict[tuple[int, int], BatchProtocol]:
        """By how many actions were played, and how many answered."""
        return {}

    def width_of(self, state: State, phase: Phase) -> float:
        """W_l."""
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

    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """A client's averages of all played actions, (n, s); of a client of one round, its reward at its action."""
        domain, rows = ask.protocol.domain, played.rewards
        if played.arms is not None:
            rows = np.where(ask.at == played.arms[:, None], rows[:, None], 0.0)
        if rows.min() >= -self.bound and rows.max() <= self.bound:  # nothing to clip
            return domain.sealed(rows, clipped=np.zeros(rows.shape[:-2], dtype=np.int64), counts=played.counts)
        inside = domain.admit(rows)
        return domain.sealed(inside.values, clipped=inside.clipped, counts=played.counts)

    def learn(self, state: State, episode: Phase) -> Generator[Ask, Estimate, State]:
        """Leave out what cannot be the best, by the released averages (s,) of the phase."""
        if episode.level != state.number:
            raise InvalidArgument("phase.number", episode.level, f"{state.number}: the phase planned from this state")
        released = yield Ask(protocol=self.protocol(episode), at=episode.arms)
        averages = released.total / (episode.plays if self.per_round else episode.answers)
        if averages.shape != episode.arms.shape:
            allowed = f"shape {episode.arms.shape}, one for each action of the phase"
            raise InvalidArgument("averages", f"array of shape {averages.shape}", allowed)
        all_finite("averages", averages)
        estimates = episode.gain @ averages
        kept = estimates.max() - estimates <= 2 * self.width_of(state, episode)
        same = episode.design if kept.all() else None
        return replace(state, active=state.active[kept], number=state.number + 1, design=same)

    def best(self, snapshot: State, contexts: Floats) -> Ints:
        """The first arm that is left."""
        return np.full(len(contexts), snapshot.active[0])

    @classmethod
    def bounds(cls, setting: Setting) -> Found:
        """Table I of [001]."""
        return distributed.of_phased_elimination(setting)

    def counts(self, state: State) -> dict[str, Ints]:
        """Actions that may still be the best."""
        return {"active": np.asarray(len(state.active))}


_DESIGNS: dict[str, Callable[[Floats], Design]] = {"near": near_optimal_design, "optimal": optimal_design}
