"""The estimators: IPS, SNIPS, direct method, doubly robust and switch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data.logs import Log
from bandanna.data.ope.intervals import ClippedMass, EstimateLaw, MeanLaw, RatioLaw, Value
from bandanna.data.ope.sums import (
    ErrorSpread,
    WeightedLog,
    WeightedSums,
    check_privacy,
    exact_sums,
    guarantee_without_privacy,
    mean_cut_off,
    missing_weight,
    read_sums,
    release_sum,
    weigh_log,
)
from bandanna.device.domain import check_all_finite, read_real_array
from bandanna.device.linear_report import LinearReport, PerArmReport, RegressionReport
from bandanna.device.weighted_report import DoublyRobustDomain, ImportanceWeightDomain
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.policies.linear.lints import compute_posterior
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.privacy_model import Privacy, none
from bandanna.types import Floats
from bandanna.validation import call_with_user_data, checked_keywords

# Where a log and a target meet: how weights are distributed. Computed from raw rows, for whoever may see those.


_BINS = 20


@checked_keywords("bd.ope.overlap")
def overlap(log: Log, target: Any, *, weight_bound: float | None = None) -> dict[str, Any]:
    """The weights of a target, from raw rows and without any privacy: for choosing a bound on data that one may see.

    A bound that was chosen after looking at the log tells of the log: choose it on other data, or by design.
    """
    return describe_case(weigh_log(log, target, weight_bound, none()))


def describe_case(case: WeightedLog) -> dict[str, Any]:
    """Plain values for JSON."""
    raw, total = np.sort(case.raw), float(case.raw.sum())
    most = max(float(raw[-1]), 1e-12)
    counts, edges = np.histogram(raw, bins=_BINS, range=(0.0, most))
    largest = max(1, len(raw) // 100)
    return {
        "matched": float(np.mean(raw > 0)),
        "mean_weight": float(np.mean(raw)),
        "largest_weight": float(raw[-1]),
        "weight_of_largest_percent": float(raw[-largest:].sum() / total) if total > 0 else 0.0,
        "least_propensity": float(case.log.propensities.min()),
        "histogram": {"edges": [float(edge) for edge in edges], "counts": [int(count) for count in counts]},
    }


# Off-policy estimators: what a policy would have earned, from what another one did.
#
# With w = pi/p of the logged arm, cut at M:
#
#     ips      b + mean w (r - b)                     Horvitz and Thompson 1952; b = 0 is the textbook's
#     snips    sum w r / sum w                        Swaminathan and Joachims 2015
#
# Without privacy they are the textbook's. With a trust model one sum over everybody in the log is released, of the
# numbers that estimate and interval are made of (`ImportanceWeightDomain`): everybody is in it once, and what is made
# of it costs nothing more.


@checked_keywords("bd.ope.ips")
def ips(
    log: Log,
    target: Any,
    *,
    weight_bound: float | None = None,
    privacy: Privacy | None = None,
    baseline: float | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Inverse propensity scores: b + mean w (r - b).

    target        "uniform", "arm:NAME", an agent, (policy, snapshot), probabilities (arms,) or (n, arms), or a function
                  of the log's contexts to them
    weight_bound  M, at which weights are cut: public. By default 1/floor of the log, where nothing is cut; without
                  privacy none
    privacy       a trust model with its budget, or None
    baseline      b, a reward: 0 by default, which is the textbook's; with privacy the middle of the range, from which
                  rewards are told with the least noise, and half the bias of clipping on either side
    seed          of noise, in tests and simulations only: it protects nobody. `path` as in `bd.simulate`, with a seed
    """
    trust = check_privacy(privacy)
    case = weigh_log(log, target, weight_bound, trust)
    return value_from_sums("ips", case, _release_sums(case, trust, seed, path), seed, baseline=baseline)


@checked_keywords("bd.ope.snips")
def snips(
    log: Log,
    target: Any,
    *,
    weight_bound: float | None = None,
    privacy: Privacy | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Self-normalised: sum w r / sum w; the one to take unless there is a reason. Arguments as of `ips`."""
    trust = check_privacy(privacy)
    case = weigh_log(log, target, weight_bound, trust)
    return value_from_sums("snips", case, _release_sums(case, trust, seed, path), seed)


def _release_sums(case: WeightedLog, trust: Privacy, seed: Any, path: str) -> WeightedSums:
    """What one release tells of a target, or what is exact without privacy."""
    if not trust.noisy:
        return exact_sums(case)
    domain = ImportanceWeightDomain(bound=case.bound, moments=True)
    statistic = domain.statistic(case.weights[:, None], case.rewards)
    released = release_sum(trust, statistic, seed=seed, path=path)
    return read_sums(case, domain.unpack(released.total)[0], released, domain.units)


def value_from_sums(method: str, case: WeightedLog, sums: WeightedSums, seed: Any, *, baseline: Any = None) -> Value:
    """IPS or SNIPS of sums. Clipping hides a share of the probability, on which rewards may be 0 or 1."""
    law: EstimateLaw = RatioLaw(sums=sums)
    below = law.estimate
    if method == "ips":
        low, high = case.log.reward_range
        middle = 0.5 if sums.private else -low / (high - low)
        below = middle if baseline is None else (_reward("baseline", baseline, low, high) - low) / (high - low)
        law = _ips_law(sums, below)
    share, error = sums.hidden
    hidden = ClippedMass(share=share, stderr=error, below=below, above=1 - below)
    return make_value(method, case, law, hidden, seed, guarantee=sums.guarantee, size=sums.size)


def _reward(argument: str, value: Any, low: float, high: float) -> float:
    allowed = f"a reward in [{low:g}, {high:g}]"
    number = validation.finite(argument, value, allowed)
    if not low <= number <= high:
        raise InvalidArgument(argument, value, allowed)
    return number


def _ips_law(sums: WeightedSums, b: float) -> MeanLaw:
    """b + mean w (rho - beta), beta = b - 1/2."""
    n, beta = sums.people, b - 0.5
    mean = (sums.value - beta * sums.weight) / n
    inside = (0.0, 1.0) if sums.private else (-math.inf, math.inf)
    centre = min(max(b + mean, inside[0]), inside[1]) - b
    square, noise = sums.at(beta), float(sums.added(beta))
    spread = square - n * centre**2
    if not sums.private:
        spread *= n / max(n - 1, 1)
    third = float(sums.third(beta, square)) - 3 * centre * square + 2 * n * centre**3
    wobble = sums.wobble(beta) + (2 * centre) ** 2 * noise
    below, above = max(sums.largest * b + centre, 0.0), max(sums.largest * (1 - b) - centre, 0.0)
    steepest = (
        (_bound_third_cumulant(spread, below, n), _bound_third_cumulant(spread, above, n)) if sums.private else None
    )
    return MeanLaw(
        value=b + mean,
        spread=ErrorSpread(
            sampled=spread, noise=noise, error=math.sqrt(wobble), third=third, steepest=steepest, laplace=sums.laplace
        ).over(n),
        surprise=(below / n, above / n),
        inside=inside,
    )


def _bound_third_cumulant(square: float, most: float, n: int) -> float:
    """An upper bound of the third cumulant of n numbers: of mean 0, at most `most`, and with this sum of squares."""
    return max(square, 0.0) * (most - max(square, 0.0) / (n * most)) if most > 0 else 0.0


def mean_law(terms: Floats, surprise: tuple[float, float]) -> MeanLaw:
    """Of numbers that are known, (n,); one unseen person may be so far below and above them."""
    n, apart = len(terms), terms - terms.mean()
    sampled = float(np.sum(apart**2)) * n / (n - 1) if n > 1 else math.inf
    spread = ErrorSpread(sampled=sampled, third=float(np.sum(apart**3))).over(n)
    return MeanLaw(value=float(np.mean(terms)), spread=spread, surprise=(surprise[0] / n, surprise[1] / n))


def make_value(
    method: str,
    case: WeightedLog,
    law: EstimateLaw,
    hidden: ClippedMass,
    seed: Any,
    *,
    guarantee: Guarantee | None,
    size: float | None,
) -> Value:
    """A value, with what clipping hides; without a guarantee it was computed without noise."""
    low, high = case.log.reward_range
    return Value(
        method=method,
        target=case.target.name,
        estimate=low + (high - low) * law.estimate,
        people=case.people,
        weight_bound=math.inf if method == "dm" else case.bound,
        clipped_mass=max(hidden.share, 0.0),
        effective_sample_size=size,
        guarantee=guarantee or guarantee_without_privacy(ImportanceWeightDomain(bound=1.0)),
        reward_range=(low, high),
        seeded=guarantee is not None and seed is not None,
        law=law,
        hidden=hidden,
        details={} if guarantee is not None else describe_case(case),
    )


# Models of rewards, as doubly robust estimates take them: what every arm is expected to earn from everybody.


_ALLOWED = "rewards expected of the arms, (arms,) or (n, arms), a function of contexts to them, or a reward model"


def reward_tables(case: WeightedLog, q: Any) -> tuple[Floats, Floats]:
    """Expected rewards on the scale of [0, 1]: of every arm, (n, K), and of the logged one, (n,)."""
    log = case.log
    low, high = log.reward_range
    if callable(q):
        made = call_with_user_data("q", q, log.contexts, _ALLOWED)
    else:
        made = q
    expected = read_real_array("q", made, _ALLOWED)
    if expected.shape not in ((log.n_arms,), (len(log), log.n_arms)):
        raise InvalidStatistic(
            "shape of q", ValueSummary(expected.shape), f"({log.n_arms},) or ({len(log)}, {log.n_arms})"
        )
    check_all_finite("q", expected)
    scaled = np.broadcast_to((expected - low) / (high - low), (len(log), log.n_arms))
    return scaled, scaled[np.arange(len(log)), log.arms]


def check_model_spread(q: Any, spread: Any, case: WeightedLog) -> float:
    """How far from the middle a model may be: as was said; of the same numbers for everybody, as far as they are."""
    if spread is not None:
        half = validation.unit_interval("spread", spread)
        if half > 0.5:
            raise InvalidArgument("spread", spread, "a number in [0, 1/2]")
        return half
    if not callable(q) and np.ndim(q) == 1:
        low, high = case.log.reward_range
        return float(min(0.5, max(np.max(np.abs((np.asarray(q, dtype=float) - low) / (high - low) - 0.5)), 1e-3)))
    return 0.5


# Estimators with a model of rewards: what it expects of a policy, corrected by what logged arms earned.
#
# With w = pi/p of the logged arm, cut at M, and a model q, g = sum_a pi(a) q(a):
#
#     dm       mean g
#     dr       mean g + w (r - q)                     Dudik, Langford and Li 2011
#     switch   mean g + w (r - q) [w <= M]            Wang, Agarwal and Dudik 2017
#
# Without privacy they are the textbook's. With a trust model the sums of d = g - 1/2 + w (r - q), w and d^2 are
# released
# (`DoublyRobustDomain`).


@checked_keywords("bd.ope.dr")
def dr(
    log: Log,
    target: Any,
    *,
    q: Any,
    weight_bound: float | None = None,
    privacy: Privacy | None = None,
    spread: float | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Doubly robust: what a model q expects, corrected by what the logged arms earned.

    q       rewards that are expected of every arm: (arms,), (n, arms), a function of the log's contexts to them, or a
            `bd.ope.reward_model` that was learned from *other* people (`log.split()`): then everybody pays once
    spread  with privacy: how far q may be from the middle of the range of rewards, as a share of it, at most and by
            default 1/2; it is cut there, and less of it needs less noise

    The other arguments are those of `ips`.
    """
    return _doubly_robust("dr", log, target, q, weight_bound, privacy, spread, seed, path)


@checked_keywords("bd.ope.switch")
def switch(
    log: Log,
    target: Any,
    *,
    q: Any,
    weight_bound: float,
    privacy: Privacy | None = None,
    spread: float | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Doubly robust where w <= `weight_bound`, and the model alone where the target is too far from the log."""
    return _doubly_robust("switch", log, target, q, weight_bound, privacy, spread, seed, path)


@checked_keywords("bd.ope.dm")
def dm(
    log: Log,
    target: Any,
    *,
    q: Any,
    privacy: Privacy | None = None,
    spread: float | None = None,
    seed: int | None = None,
    path: str = "messages",
) -> Value:
    """Direct method: what the model expects. Its interval is for the model's opinion, not for what it gets wrong."""
    return _doubly_robust("dm", log, target, q, math.inf, privacy, spread, seed, path)


def _doubly_robust(
    method: str,
    log: Log,
    target: Any,
    q: Any,
    weight_bound: float | None,
    privacy: Privacy | None,
    spread: float | None,
    seed: Any,
    path: str,
) -> Value:
    trust = check_privacy(privacy)
    cut = None if method == "dm" else weight_bound
    if method == "switch" and weight_bound is None:
        raise InvalidArgument("weight_bound", None, "a number: above it the model alone is believed")
    case = weigh_log(log, target, cut, none() if method == "dm" else trust)
    if trust.noisy:
        log.check_private()
    expected, logged = reward_tables(case, q)
    half = check_model_spread(q, spread, case) if trust.noisy else 0.5
    if trust.noisy:
        expected, logged = (np.clip(each, 0.5 - half, 0.5 + half) for each in (expected, logged))
    weights = np.zeros(case.people) if method == "dm" else case.weights
    if method == "switch":
        weights = np.where(case.raw <= case.bound * (1 + 1e-12), case.raw, 0.0)
    model = np.sum(case.target.chances * expected, axis=1)
    corrections = model - 0.5 + weights * (case.rewards - logged)
    if trust.noisy:
        return _release_corrections(method, case, corrections, weights, half, trust, seed, path)
    worst, best = model - 0.5 - weights * logged, model - 0.5 + weights * (1 - logged)  # of rewards 0 and 1
    mean = np.mean(corrections)
    law = mean_law(corrections + 0.5, (float(mean - np.min(worst)), float(np.max(best) - mean)))
    share, error = (0.0, 0.0) if method == "dm" else mean_cut_off(case.raw - weights)
    hidden = ClippedMass(share=share, stderr=error, below=1.0, above=1.0)
    return make_value(method, case, law, hidden, seed, guarantee=None, size=exact_sums(case).size)


def _release_corrections(
    method: str,
    case: WeightedLog,
    corrections: Floats,
    weights: Floats,
    half: float,
    trust: Privacy,
    seed: Any,
    path: str,
) -> Value:
    """By the sums of d, w and d^2."""
    n = case.people
    domain = DoublyRobustDomain(bound=0.0 if method == "dm" else case.bound, spread=half)
    released = release_sum(trust, domain.statistic(corrections, weights), seed=seed, path=path)
    (total, weight, square), noise = domain.unpack(released.total), released.variance * domain.units**2
    mean, largest = float(total) / n, domain.largest
    centre = min(max(mean, -0.5), 0.5)
    spread = ErrorSpread(
        sampled=float(square) - n * centre**2,
        noise=float(noise[0]),
        error=math.sqrt(noise[2] + (2 * centre) ** 2 * noise[0]),
        laplace=released.laplace,
    )
    law = MeanLaw(
        value=0.5 + mean,
        spread=spread.over(n),
        surprise=(max(largest + centre, 0.0) / n, max(largest - centre, 0.0) / n),
        inside=(0.0, 1.0),
    )
    share, error = 0.0, 0.0
    if method != "dm" and not case.safe:
        share, error = missing_weight(float(weight), case.bound * max(float(weight), 0.0), float(noise[1]), n)
    hidden = ClippedMass(share=share, stderr=error, below=0.5 + half, above=0.5 + half)
    return make_value(method, case, law, hidden, seed, guarantee=released.guarantee, size=None)


# A model of rewards that a log teaches, in any trust model: what doubly robust estimates begin with.
#
# A linear regression for each arm on features of users, or one for all arms on features of arms, from one released sum
# of
# reports (`PerArmReport`, `LinearReport`) and the posterior that knows its noise, as `LinTS` learns.


_REWARD_STD = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class RewardModel:
    """A function of contexts, (n, d) or (n, K, d), to expected rewards, (n, K): released numbers, and so public.

    theta      of every arm, with its constant last, (K, d + 1); or of all arms, (d,)
    people     from whom it was learned: evaluate on others
    """

    theta: Floats
    people: int
    n_arms: int
    reward_range: tuple[float, float]
    guarantee: Guarantee
    domain: RegressionReport

    def __call__(self, contexts: Any) -> Floats:
        """Expected rewards, within their range."""
        shown = read_real_array("contexts", contexts)
        own = isinstance(self.domain, PerArmReport)
        if shown.ndim != (2 if own else 3) or max(shown.shape[-1], int(own)) != self.domain.features:
            allowed = f"(n, {'' if own else 'arms, '}{self.domain.features})"
            raise InvalidStatistic("shape of contexts", ValueSummary(shown.shape), allowed)
        check_all_finite("contexts", shown)
        if own:
            z = self.domain.seen(_features_or_zeros(shown))
            scores = np.concatenate([z, np.ones((len(z), 1))], axis=1) @ self.theta.T + 0.5
        else:
            scores = self.domain.seen(shown) @ self.theta
        low, high = self.reward_range
        return np.asarray(low + (high - low) * np.clip(scores, 0.0, 1.0))


@checked_keywords("bd.ope.reward_model")
def reward_model(
    log: Log,
    *,
    privacy: Privacy | None = None,
    prior: float = 0.5,
    seed: int | None = None,
    path: str = "messages",
) -> RewardModel:
    """Learn what arms earn: a linear model of rewards, from one private sum over everybody in the log.

    prior  typical size of a parameter. `seed` is for tests, and protects nobody.
    """
    if not isinstance(log, Log):
        raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
    trust, size = check_privacy(privacy), validation.bounded_factor("prior", prior)
    if trust.noisy:
        log.check_private()
    own = log.of_users
    domain: RegressionReport = (
        PerArmReport(features=max(log.dim, 1), n_arms=log.n_arms)
        if own
        else LinearReport(features=log.dim, isometric=trust.isometric)
    )
    rows = np.arange(len(log))
    features = _features_or_zeros(log.contexts) if own else log.contexts[rows, log.arms]
    rewards = log.scaled_rewards() - (0.5 if own else 0.0)
    statistic = domain.statistic(features, rewards, arms=log.arms if own else None)
    if trust.noisy:
        released = release_sum(trust, statistic, seed=seed, path=path)
        total, variance, guarantee = released.total, released.variance, released.guarantee
    else:
        total, variance, guarantee = statistic.total(), 0.0, guarantee_without_privacy(domain)
    vector, matrix = domain.variances
    mean, _, _ = compute_posterior(
        *domain.sums(total, len(log)),
        noise=(variance * vector, variance * matrix),
        second_moments=size**2 * domain.second_moments,
        reward_std=_REWARD_STD,
    )
    return RewardModel(
        theta=mean, people=len(log), n_arms=log.n_arms, reward_range=log.reward_range, guarantee=guarantee,
        domain=domain,
    )  # fmt: skip


def _features_or_zeros(contexts: Floats) -> Floats:
    """Features, or one that is 0 where there are none."""
    return contexts if contexts.shape[-1] else np.zeros((len(contexts), 1))
