"""`Target`, what is under audit; the settings of algorithms; and `AuditResult` with its rows."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from os import PathLike
from typing import Any

import numpy as np

from bandanna import environments as worlds
from bandanna import validation
from bandanna.audit.exact import LawPair
from bandanna.audit.sampled_bounds import (
    Claim,
    DrawBlocks,
    DrawRuns,
    RunBlock,
    SampledBound,
    TradeOffCurve,
    bound_by_sampling,
    draw_block,
    draw_blocks_here,
    one_run_bound,
)
from bandanna.errors import InvalidArgument
from bandanna.experiments.executors import Executor
from bandanna.policies.algorithm import ALGORITHMS
from bandanna.policies.base import Policy
from bandanna.policies.glm.glm_jdp import GLMJDPConstants
from bandanna.policies.registry import find_algorithm, make
from bandanna.privacy.guarantee import format_rounded_up
from bandanna.simulation.environments.base import Environment
from bandanna.types import Floats

# Settings: a small problem for every algorithm, large enough for queries and small enough to run often


_FRESH = worlds.LinearContextual(dim=3, n_arms=6)
_FINITE = worlds.FiniteArms(means=(0.8, 0.4, 0.2))
_SPHERE = worlds.SphereArms(dim=2, n_arms=5)
_CONTEXTS = worlds.SphereContexts(dim=2, n_arms=5)
_GLM = worlds.GeneralisedLinear(dim=2, n_arms=4, norm=2.0)
_PEOPLE = worlds.Population(dim=2, n_arms=4, sigma=0.1)
_BUSY = GLMJDPConstants(  # refits after few rounds, until all calls that are paid for are made
    share=0.4,
    steps=2,
    calls_o=2,
    calls_tau=2,
    regulariser_v=4.0,
    regulariser_h=1.0,
    ridge=1.0,
    threshold=1 / 16,
    elimination=9.0,
    bonus=1.0,
)
HORIZON = 200  # of a policy by its place


@dataclass(frozen=True, kw_only=True)
class AuditSetting:
    """An environment, and a policy's arguments in it beside the budget."""

    env: Environment
    arguments: dict[str, Any] = field(default_factory=dict)
    rounds: int
    rho: float | None = None  # where the budget is in zCDP


def _linear_setting(horizon: int = 24) -> AuditSetting:
    return AuditSetting(env=_FRESH, arguments={"dim": 3, "horizon": horizon, "width": 0.2}, rounds=horizon)


def _sampled_setting(**more: Any) -> AuditSetting:
    return AuditSetting(env=_FRESH, arguments={"dim": 3, "horizon": 40, "intercept": True, **more}, rounds=40)


def _finite_setting(horizon: int = 40, rho: float | None = None, **more: Any) -> AuditSetting:
    return AuditSetting(env=_FINITE, arguments={"n_arms": 3, "horizon": horizon, **more}, rounds=horizon, rho=rho)


def _logistic_setting(horizon: int = 60, **more: Any) -> AuditSetting:
    arguments = {"dim": 2, "horizon": horizon, "parameter_bound": 2.0, **more}
    return AuditSetting(env=_GLM, arguments=arguments, rounds=horizon)


_SPHERES = AuditSetting(env=_SPHERE, arguments={"dim": 2, "horizon": 3000}, rounds=3000, rho=0.5)
_OFUL = AuditSetting(env=_CONTEXTS, arguments={"dim": 2, "horizon": 40}, rounds=40, rho=0.5)
_CLIENTS = AuditSetting(env=_PEOPLE, arguments={"dim": 2, "horizon": 300}, rounds=300)

SETTINGS: dict[str, AuditSetting] = {
    **dict.fromkeys(("LinTS", "LinTS-JDP", "LinTS-LDP", "LinTS-SDP", "LinTS-CSDP"), _sampled_setting()),
    **dict.fromkeys(
        ("LinTS-JDP-rewards", "LinTS-LDP-rewards", "LinTS-SDP-rewards"), _sampled_setting(public_contexts=True)
    ),
    **dict.fromkeys(("LinUCB", "LinUCB-JDP", "LinUCB-JDP-batched", "LinUCB-LDP"), _linear_setting()),
    **dict.fromkeys(("LinUCB-LDP-batched", "LinUCB-SDP-Amp", "LinUCB-SDP-Vec", "LinUCB-CSDP"), _linear_setting(40)),
    **dict.fromkeys(("DPE", "CDP-DPE", "LDP-DPE", "SDP-DPE", "Laplace-DPE", "DPE-FixedU", "PE"), _CLIENTS),
    **dict.fromkeys(("UCB1", "Thompson", "UCB-episodes", "AdaP-UCB", "LDP-UCB"), _finite_setting()),
    "AdaC-UCB": _finite_setting(rho=0.5),
    **dict.fromkeys(("DP-SE", "SDP-SE"), _finite_setting(3000, failure=0.5)),
    **dict.fromkeys(("GOPE", "AdaC-GOPE", "AdaC-GOPE-early"), _SPHERES),
    **dict.fromkeys(("RS-OFUL", "AdaC-OFUL"), _OFUL),
    "AdaC-OFUL-JDP": AuditSetting(
        env=_CONTEXTS, arguments={"dim": 2, "horizon": 60, "growth": 0.1}, rounds=60, rho=50.0
    ),
    **dict.fromkeys(("GLM-UCB", "GLOC", "ECOLog"), _logistic_setting(30)),
    "RS-GLinUCB": _logistic_setting(30, constants="published"),
    "B-GLinUCB": _logistic_setting(warmup=30),
    "GLM-JDP": _logistic_setting(40, constants=_BUSY),
    "GLM-SDP": _logistic_setting(60, warmup=30, steps=2),
}


def setting_for(name: str) -> AuditSetting:
    """Return the setting of an algorithm, by its arguments if it is not listed."""
    if name in SETTINGS:
        return SETTINGS[name]
    own = {each for each in find_algorithm(name).kind.__dataclass_fields__ if not each.startswith("_")}
    if "dim" in own:
        return AuditSetting(env=_FRESH, arguments={"dim": 3, "horizon": HORIZON}, rounds=HORIZON)
    return AuditSetting(env=_FINITE, arguments={"n_arms": 3, "horizon": HORIZON}, rounds=HORIZON)


def make_audited_policy(
    name: str, *, epsilon: float, delta: float, given: bool = False, trust: str | None = None
) -> tuple[Policy[Any], AuditSetting]:
    """Make the algorithm in its setting, at a budget in the form that it takes.

    `given`: the caller chose this budget; otherwise settings of zCDP have a rho of their own. `trust` is for a policy
    outside of the library, by default its first privacy model.
    """
    setting, entry = setting_for(name), find_algorithm(name)
    options = set(entry.options)
    budget: dict[str, Any] = {}
    if "rho" in options and setting.rho is not None and not (given and "delta" in options):
        budget = {"rho": setting.rho}
    elif "epsilon" in options:
        budget = {"epsilon": epsilon} | ({"delta": delta} if "delta" in options else {})
    if "trust" in options:
        noisy = [each for each in entry.kind.trusts if each != "none"]
        if not noisy:
            raise InvalidArgument("target", name, "a policy with a privacy model other than bd.none()")
        budget["trust"] = noisy[0] if trust is None else validation.one_of("trust", trust, tuple(noisy))
    elif trust is not None:
        raise InvalidArgument("trust", trust, f"left out, because {name} has one privacy model")
    return make(name, **{**setting.arguments, **budget}), setting


def list_algorithms() -> tuple[str, ...]:
    """Return the names of all algorithms."""
    return tuple(ALGORITHMS)


# Results


CONSISTENT, REFUTED = "consistent", "refuted"
COLUMNS = (
    "target",
    "known",
    "claimed_epsilon",
    "delta",
    "lower_bound",
    "confidence",
    "trials",
    "verdict",
    "looked_at",
    "not_looked_at",
)
NEVER_LOOKED_AT = (
    "outcomes too rare for so many runs",
    "how many seeds the noise comes from",
    "time, logs and texts of errors",
)  # no audit looks at these

_DRAWN = 10  # rows in one picture


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """The result for one target.

    Parameters
    ----------
    target, known
        The name, and the known truth: "good", "bad" or None.
    claim
        The claim under audit.
    lower_bound
        A bound on the target's epsilon at delta, with this confidence (1: exact, nothing was sampled).
    trials
        The number of runs.
    verdict
        "refuted" or "consistent".
    attack
        The attack that found the bound: "exact", "sampled", "one-run" or "replay".
    why
        The difference between the neighbours, where it was no test of numbers.
    looked_at, not_looked_at
        The scope of the audit, and where a fault would not be found.
    reached
        The bound as a share of the claim, in mu where the claim is Gaussian.
    """

    target: str
    known: str | None
    claim: Claim
    lower_bound: float
    confidence: float
    trials: int
    verdict: str
    attack: str = "sampled"
    why: str = ""
    looked_at: str = ""
    not_looked_at: str = ""
    reached: float = 0.0
    curve: TradeOffCurve | None = field(default=None, compare=False, repr=False)

    @property
    def refuted(self) -> bool:
        """Whether the claim is false, with the stated confidence."""
        return self.verdict == REFUTED

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; infinities are None."""
        claimed, found = (None if math.isinf(each) else each for each in (self.claim.epsilon, self.lower_bound))
        values = (self.target, self.known, claimed, self.claim.delta, found, self.confidence, self.trials, self.verdict)
        return dict(zip(COLUMNS, (*values, self.looked_at, self.not_looked_at), strict=True))

    def __str__(self) -> str:
        if math.isinf(self.claim.epsilon):
            return f"{self.target}: nothing is promised, so nothing can be refuted."
        stated = f"epsilon = {format_rounded_up(self.claim.epsilon)} at delta = {self.claim.delta:.3g}"
        found = f"at least {self.lower_bound:.4g}"
        how = "exactly" if self.confidence == 1 else f"with confidence {self.confidence:g} after {self.trials:,} runs"
        sentence = f"{self.target}: {self.verdict}; claimed {stated}, found {found}, {how} ({self.attack})."
        if self.why:
            sentence += f" {self.why[0].upper()}{self.why[1:]}."
        for what, where in (("Looked at", self.looked_at), ("Not looked at", self.not_looked_at)):
            sentence += f" {what}: {where}." if where else ""
        return sentence


@dataclass(frozen=True, kw_only=True)
class AuditResult:
    """The rows of an audit.

    Parameters
    ----------
    rows : tuple of AuditRow
        One for each target.
    """

    rows: tuple[AuditRow, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.rows))

    @property
    def refuted(self) -> bool:
        """Whether any claim is false."""
        return any(row.refuted for row in self.rows)

    @property
    def surprises(self) -> tuple[AuditRow, ...]:
        """The rows whose verdict is not the known truth."""
        return tuple(row for row in self.rows if row.known and (row.known == "bad") != row.refuted)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"rows": [row.to_dict() for row in self.rows]}

    def plot(self, path: str | PathLike[str]) -> None:
        """Draw the measured trade-offs of the first ten rows that have one, above their claims."""
        from bandanna.simulation import figures

        figures.check_drawable(path)
        drawn = [row for row in self.rows if row.curve is not None][:_DRAWN]
        with figures.house_style():
            figure, axes = figures.make_axes((8.0, 6.4), (0.1, 0.1, 0.62, 0.74))
            levels = np.linspace(0, 1, 401)
            ends = []
            for place, row in enumerate(drawn):
                assert row.curve is not None
                colour = figures.colour_of(place)
                axes.plot(row.curve.level, row.curve.missed, color=colour, linewidth=2.6, alpha=0.8)
                dark = "#333333" if len(drawn) == 1 else colour
                axes.plot(levels, 1 - row.claim.power(levels), color=dark, linewidth=1.2, linestyle=(0, (4, 3)))
                ends.append((f"{row.target}: {row.verdict}", 1.0, 0.9 - 0.08 * place, colour, row.refuted))
            axes.set_xlim(0, 1)
            axes.set_ylim(0, 1)
            note = "broad: measured; dashed: the claim, below which no test may lie"
            figures.decorate_axes(
                axes, "Telling two neighbours apart", note, across="says P where Q is true", up="misses P"
            )
            figures.label_ends(axes, ends)
        figures.save_figure(figure, path)


def gaussian_curve(mu: float) -> TradeOffCurve:
    """Return the trade-off of N(0, 1) and N(mu, 1)."""
    levels: Floats = np.linspace(0.0, 1.0, 201)
    return TradeOffCurve(level=levels, missed=1 - Claim(epsilon=0.0, delta=0.5, mu=mu).power(levels))


# Targets


TRIALS, CONFIDENCE = 40_000, 0.95
SINGLE = 8192  # runs at most, where they are made one by one
ProgressCallback = Callable[[int, int, str], None]


def ignore_progress(done: int, total: int, what: str) -> None:
    """Ignore a report of progress."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """A claim, and the ways to attack it.

    Parameters
    ----------
    draw
        (swapped, runs, rng) -> numbers that an observer sees, (runs, k).
    scored
        Whether these are one number that is larger for the first neighbour.
    mu, pure
        The exact separation of Gaussian noise, and the exact loss of Laplace noise.
    pairs
        Exact laws under both neighbours of independent parts of the release (`audit.exact`).
    leaks, why
        The confidence that epsilon is infinite, because something else in the same releases differs between the
        neighbours (`audit.replay`), and a sentence about it; 1 for a release without noise.
    through
        For a policy: the protocols that release something about the user.
    most
        The largest number of runs, where each takes long.
    looked, unseen
        The scope of the audit, and its limits, in words.
    """

    name: str
    claim: Claim
    known: str | None = None
    draw: DrawRuns | None = None
    scored: bool = False
    chunk: int = 20_000
    mu: float | None = None
    pure: float | None = None
    pairs: tuple[LawPair, ...] = ()
    leaks: float | None = None
    why: str = ""
    through: tuple[str, ...] = ()
    most: int | None = None
    looked: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()


def stream_key(target: Target, seed: int) -> list[int]:
    """Return the key of the random streams that a target's blocks share."""
    return [seed, *target.name.encode()]


def attacked(
    target: Target,
    *,
    trials: int = TRIALS,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    drawn: DrawBlocks | None = None,
    progress: ProgressCallback = ignore_progress,
) -> AuditRow:
    """Attack a target by all means and return the best bound: exact bounds are certain, sampled ones have a confidence.

    Parameters
    ----------
    target : Target
        The claim and the ways to attack it.
    trials : int
        The largest number of runs, half of them under either neighbour.
    confidence : float
        The probability with which a refutation is right.
    seed : int
        The seed of all draws.
    drawn : callable, optional
        Runs the blocks elsewhere (`run_blocks_by`); the numbers are the same.
    progress : callable
        Called with the runs done, all runs, and the target's name.

    Returns
    -------
    AuditRow
        The verdict and the lower bound.
    """
    claim = target.claim
    if math.isinf(claim.epsilon):
        return _make_row(target, 0.0, 1.0, 0, "nothing claimed")
    if target.leaks is not None:
        return _make_row(target, math.inf, target.leaks, 0, "exact" if target.leaks == 1 else "replay")
    known = claim.needs(mu=target.mu, pure=target.pure)
    if known is None and target.pairs:
        known = claim.parameter_for_pairs(target.pairs)
    best = _make_row(target, known or 0.0, 1.0, 0, "exact")
    if target.draw is None or best.refuted:
        return best
    found = bound_by_sampling(
        draw_blocks_here(target.draw, stream_key(target, seed)) if drawn is None else drawn,
        claim,
        trials=trials if target.most is None else min(trials, target.most),
        confidence=confidence,
        scored=target.scored,
        chunk=target.chunk,
        progress=lambda done, total: progress(done, total, target.name),
    )
    by_samples = _make_row(target, found.needed, confidence, found.trials, "sampled", found)
    if by_samples.refuted or by_samples.lower_bound >= best.lower_bound:
        return by_samples
    return _make_row(target, known or 0.0, 1.0, found.trials, "exact", found)


def _make_row(
    target: Target, needed: float, confidence: float, trials: int, attack: str, found: SampledBound | None = None
) -> AuditRow:
    claim = target.claim
    refuted = claim.is_refuted_by(needed)
    curve = None if found is None else found.curve
    if curve is None and claim.mu is not None and target.mu is not None:
        curve = gaussian_curve(target.mu)
    return AuditRow(
        target=target.name,
        known=target.known,
        claim=claim,
        lower_bound=claim.to_epsilon(needed),
        confidence=confidence,
        trials=trials,
        verdict=REFUTED if refuted else CONSISTENT,
        attack=attack,
        why=target.why if refuted else "",
        looked_at="; ".join(target.looked),
        not_looked_at="; ".join((*target.unseen, *NEVER_LOOKED_AT)) if target.looked else "",
        reached=(needed if refuted else min(needed, claim.stated)) / claim.stated if claim.epsilon > 0 else 0.0,
        curve=curve,
    )


def make_guessing_row(claim: Claim, right: int, coins: int, *, confidence: float, unseen: str, **more: Any) -> AuditRow:
    """Return the row for `right` guesses of `coins` coins."""
    bound = one_run_bound(right, guesses=coins, canaries=coins, delta=claim.delta, confidence=confidence)
    verdict, rest = REFUTED if bound > claim.epsilon else CONSISTENT, "; ".join((unseen, *NEVER_LOOKED_AT))
    row = AuditRow(known=None, claim=claim, lower_bound=bound, confidence=confidence, verdict=verdict, **more)
    return replace(row, not_looked_at=rest, reached=bound / claim.epsilon)


# Blocks of runs over many workers


Build = Callable[..., Target]  # importable


def run_blocks_by(working: Executor, build: Build, arguments: dict[str, Any], key: Sequence[int]) -> DrawBlocks:
    """Run blocks of the target `build(**arguments)` by an executor, and read them in their order.

    Blocks have random streams of their own and looks come after fixed numbers of blocks, so the result does not depend
    on the workers. Every worker builds the target once.
    """
    try:
        made = pickle.dumps((build, arguments))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        allowed = "a name, module:Class, or a value of a class that can be imported"
        raise InvalidArgument("target", arguments.get("target"), allowed, "Other processes build it") from error

    def drawn(sizes: Sequence[int]) -> Iterator[RunBlock]:
        tasks = {
            number: {"made": made, "key": tuple(key), "number": number, "runs": runs}
            for number, runs in enumerate(sizes)
        }
        waiting: dict[int, RunBlock] = {}
        following = 0
        with closing(working.call_all(draw_target_block, tasks)) as ending:
            for number, both in ending:
                waiting[number] = both
                while following in waiting:
                    yield waiting.pop(following)
                    following += 1

    return drawn


def draw_target_block(*, made: bytes, key: Sequence[int], number: int, runs: int) -> RunBlock:
    """Draw one block in any process."""
    target = _build_target(made)
    assert target.draw is not None
    return draw_block(target.draw, key, number, runs)


@lru_cache(maxsize=4)
def _build_target(made: bytes) -> Target:
    build, arguments = pickle.loads(made)
    target: Target = build(**arguments)
    return target
