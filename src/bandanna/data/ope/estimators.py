"""Estimators of a target policy's value: `ips`, `snips`, `dm`, `dr`, `switch`; `reward_model`; `compare`.

With w = pi/p of the logged arm, clipped at M, a reward model q, and g = sum_a pi(a) q(a):

    ips      b + mean w (r - b)                     Horvitz and Thompson 1952, for b = 0
    snips    sum w r / sum w                        Swaminathan and Joachims 2015
    dm       mean g
    dr       mean g + w (r - q)                     Dudik, Langford and Li 2011
    switch   mean g + w (r - q) [w <= M]            Wang, Agarwal and Dudik 2017

With a privacy model one sum over all users in the log is released, from which estimate and interval are computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data.logs import Log
from bandanna.data.ope.intervals import ClippedMass, DifferenceLaw, EstimateLaw, MeanLaw, RatioLaw, Value, interval_ends
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
    weigh_known_target,
    weigh_log,
)
from bandanna.data.ope.targets import TargetPolicy, to_target_policy
from bandanna.device.domain import check_all_finite, read_real_array
from bandanna.device.linear_report import LinearReport, PerArmReport, RegressionReport
from bandanna.device.weighted_report import DoublyRobustDomain, ImportanceWeightDomain
from bandanna.errors import InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.policies.linear.lints import compute_posterior
from bandanna.privacy.guarantee import Guarantee
from bandanna.protocols.privacy_model import Privacy, none
from bandanna.types import Floats
from bandanna.validation import call_with_user_data, checked_keywords

_BINS = 20


@checked_keywords("bd.ope.overlap")
def overlap(log: Log, target: Any, *, weight_bound: float | None = None) -> dict[str, Any]:
    """Describe the weights of a target from raw rows, without privacy.

    A weight bound that is chosen from the log reveals something of it: choose it on other data, or by design.

    Parameters
    ----------
    log, target
        As for `ips`.
    weight_bound
        As for `ips`; the described weights are those before clipping.
    """
    return describe_case(weigh_log(log, target, weight_bound, none()))


def describe_case(case: WeightedLog) -> dict[str, Any]:
    """Return the distribution of the weights as plain values for JSON."""
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
    """Estimate a target's value by inverse propensity scores: b + mean w (r - b).

    Parameters
    ----------
    log : Log
        The events.
    target
        "uniform", "arm:NAME", an agent, (policy, snapshot), probabilities (arms,) or (n, arms), or a function of the
        log's contexts to them.
    weight_bound : float, optional
        Public bound M at which weights are clipped. By default 1/floor of the log, which clips nothing; without privacy
        infinite.
    privacy : Privacy, optional
        A privacy model with its budget. By default the whole budget of the log; no privacy if the log has none.
    baseline : float, optional
        Reward b. By default 0, and with privacy the middle of the range, which needs the least noise.
    seed, path
        For tests and simulations: seeded noise protects nobody. `path` is as in `bd.simulate`, and needs a seed.

    Returns
    -------
    Value
        The estimate, its interval and its guarantee.

    Raises
    ------
    BudgetExceeded
        The release would exceed the log's budget.
    """
    trust = check_privacy(privacy, log)
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
    """Estimate a value by self-normalised scores, sum w r / sum w (the default choice).

    Parameters
    ----------
    log, target, weight_bound, privacy, seed, path
        As for `ips`. A smaller `weight_bound` needs less noise and hides more of the target.
    """
    trust = check_privacy(privacy, log)
    case = weigh_log(log, target, weight_bound, trust)
    return value_from_sums("snips", case, _release_sums(case, trust, seed, path), seed)


def _release_sums(case: WeightedLog, trust: Privacy, seed: Any, path: str) -> WeightedSums:
    if not trust.noisy:
        return exact_sums(case)
    domain = ImportanceWeightDomain(bound=case.bound, moments=True)
    statistic = domain.statistic(case.weights[:, None], case.rewards)
    query = ("weights", case.target.query, case.bound)
    released = release_sum(trust, statistic, log=case.log, query=query, seed=seed, path=path)
    return read_sums(case, domain.unpack(released.total)[0], released, domain.units)


def value_from_sums(method: str, case: WeightedLog, sums: WeightedSums, seed: Any, *, baseline: Any = None) -> Value:
    """Compute IPS or SNIPS from sums. Rewards may be 0 or 1 on the share that clipping hides."""
    law: EstimateLaw = RatioLaw(sums=sums)
    below = law.estimate
    if method == "ips":
        low, high = case.log.reward_range
        middle = 0.5 if sums.private else -low / (high - low)
        below = middle
        if baseline is not None:
            number = validation.finite("baseline", baseline, f"a reward in [{low:g}, {high:g}]")
            if not low <= number <= high:
                raise InvalidArgument("baseline", baseline, f"a reward in [{low:g}, {high:g}]")
            below = (number - low) / (high - low)
        law = _ips_law(sums, below)
    share, error = sums.hidden
    hidden = ClippedMass(share=share, stderr=error, below=below, above=1 - below)
    return make_value(method, case, law, hidden, seed, guarantee=sums.guarantee, size=sums.size)


def _ips_law(sums: WeightedSums, b: float) -> MeanLaw:
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
    """Bound the third cumulant of n numbers of mean 0, at most `most`, with this sum of squares."""
    return max(square, 0.0) * (most - max(square, 0.0) / (n * most)) if most > 0 else 0.0


def mean_law(terms: Floats, surprise: tuple[float, float]) -> MeanLaw:
    """Return the law of the mean of known numbers, (n,); `surprise` is an unseen user's distance below and above."""
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
    """Make a value with the bias that clipping may hide; `guarantee=None`: without noise."""
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


# Estimators with a reward model


_ALLOWED = "rewards expected of the arms, (arms,) or (n, arms), a function of contexts to them, or a reward model"


def reward_tables(case: WeightedLog, q: Any) -> tuple[Floats, Floats]:
    """Return expected rewards in [0, 1] of every arm, (n, K), and of the logged arm, (n,)."""
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


def _describe_model(q: Any) -> str | None:
    if isinstance(q, RewardModel):
        return repr((q.theta.tolist(), q.reward_range, q.domain))
    return None if callable(q) or np.ndim(q) != 1 else repr(np.asarray(q, dtype=float).tolist())


def check_model_spread(q: Any, spread: Any, case: WeightedLog) -> float:
    """Return a model's largest distance from the middle, as given or that of a model that is the same for all users."""
    if spread is not None:
        half = validation.unit_interval("spread", spread)
        if half > 0.5:
            raise InvalidArgument("spread", spread, "a number in [0, 1/2]")
        return half
    if not callable(q) and np.ndim(q) == 1:
        low, high = case.log.reward_range
        return float(min(0.5, max(np.max(np.abs((np.asarray(q, dtype=float) - low) / (high - low) - 0.5)), 1e-3)))
    return 0.5


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
    """Estimate a target's value doubly robustly: a model's expectation, corrected by the rewards of logged arms.

    Parameters
    ----------
    q
        Expected rewards of every arm: (arms,), (n, arms), a function of the log's contexts to them, or a
        `bd.ope.reward_model` learned from other users.
    spread : float, optional
        With privacy, the largest distance of q from the middle of the range of rewards, as a share of the range, at
        most and by default 1/2. q is clipped there; a smaller spread needs less noise.
    log, target, weight_bound, privacy, seed, path
        As for `ips`.

    Returns
    -------
    Value
        The estimate.
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
    """Estimate doubly robustly where w <= `weight_bound`, and by the model alone elsewhere.

    Parameters
    ----------
    weight_bound
        Public bound M on the weights of rewards, required; a smaller one needs less noise.
    log, target, q, privacy, spread, seed, path
        As for `dr`.
    """
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
    """Estimate by the model alone. The interval does not cover the model's error.

    Parameters
    ----------
    q
        Expected rewards as for `dr`, learned from other users.
    log, target, privacy, spread, seed, path
        As for `dr`. There are no weights; with privacy, the noise grows with `spread`.
    """
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
    trust = check_privacy(privacy, log)
    cut = None if method == "dm" else weight_bound
    if method == "switch" and weight_bound is None:
        raise InvalidArgument("weight_bound", None, "a number, above which only the model is used")
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
        query = (method, case.target.query, case.bound, half, _describe_model(q))
        return _release_corrections(method, case, corrections, weights, half, trust, query, seed, path)
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
    query: tuple[Any, ...],
    seed: Any,
    path: str,
) -> Value:
    n = case.people
    domain = DoublyRobustDomain(bound=0.0 if method == "dm" else case.bound, spread=half)
    statistic = domain.statistic(corrections, weights)
    released = release_sum(trust, statistic, log=case.log, query=query, seed=seed, path=path)
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


# The reward model


_REWARD_STD = 0.5


@dataclass(frozen=True, kw_only=True, eq=False)
class RewardModel:
    """A released linear model of rewards: contexts (n, d) or (n, K, d) -> expected rewards (n, K).

    Parameters
    ----------
    theta
        For each arm with its constant last, (K, d + 1); or for all arms, (d,).
    people
        Number of users that it was learned from; evaluate on others.
    """

    theta: Floats
    people: int
    n_arms: int
    reward_range: tuple[float, float]
    guarantee: Guarantee
    domain: RegressionReport

    def __call__(self, contexts: Any) -> Floats:
        """Return expected rewards, clipped to their range."""
        shown = read_real_array("contexts", contexts)
        own = isinstance(self.domain, PerArmReport)
        if shown.ndim != (2 if own else 3) or max(shown.shape[-1], int(own)) != self.domain.features:
            allowed = f"(n, {'' if own else 'arms, '}{self.domain.features})"
            raise InvalidStatistic("shape of contexts", ValueSummary(shown.shape), allowed)
        check_all_finite("contexts", shown)
        if own:
            z = self.domain.clip_features(_features_or_zeros(shown))
            scores = np.concatenate([z, np.ones((len(z), 1))], axis=1) @ self.theta.T + 0.5
        else:
            scores = self.domain.clip_features(shown) @ self.theta
        low, high = self.reward_range
        return np.asarray(low + (high - low) * np.clip(scores, 0.0, 1.0))


@checked_keywords("bd.ope.reward_model")
def reward_model(
    log: Log, *, privacy: Privacy | None = None, prior: float = 0.5, seed: int | None = None, path: str = "messages"
) -> RewardModel:
    """Learn a linear model of rewards from one private sum over all users in the log.

    It is a regression for each arm on users' features, or one for all arms on arms' features.

    Parameters
    ----------
    log, privacy, path
        As for `ips`.
    prior : float
        Typical size of a parameter.
    seed : int, optional
        For tests; seeded noise protects nobody.

    Returns
    -------
    RewardModel
        A function of contexts.
    """
    if not isinstance(log, Log):
        raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
    trust, size = check_privacy(privacy, log), validation.bounded_factor("prior", prior)
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
        released = release_sum(trust, statistic, log=log, query=("reward model",), seed=seed, path=path)
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
    return contexts if contexts.shape[-1] else np.zeros((len(contexts), 1))


_MOST = 1_000


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The values of several targets by name, from one release.

    Parameters
    ----------
    values, method
        The values, and the estimator.
    exclusive
        Whether each target always gives another arm.
    terms
        Without privacy, each user's contribution to each estimate with the logged, the least and the largest reward,
        (3, n, J).
    """

    values: dict[str, Value]
    method: str = "snips"
    exclusive: bool
    terms: Floats | None = field(default=None, repr=False, compare=False)

    @property
    def guarantee(self) -> Guarantee:
        return next(iter(self.values.values())).guarantee

    @property
    def best(self) -> str:
        return max(self.values, key=lambda name: self.values[name].estimate)

    def __getitem__(self, name: str) -> Value:
        if name not in self.values:
            raise InvalidArgument("name", name, f"one of {', '.join(self.values)}")
        return self.values[name]

    def difference(self, one: str, other: str, level: float = 0.95) -> tuple[float, float, float]:
        """Estimate how much more `one` earns than `other`; return the estimate and the ends of its interval.

        Without privacy, and for exclusive targets, the covariance of the estimates is known. Otherwise the interval
        covers the worst case. Each interval has its level alone, not jointly with others.
        """
        first, second = self[one], self[other]
        level = validation.open_probability("level", level)
        span = first.reward_range[1] - first.reward_range[0]
        law = self._law(one, other)
        low, high = interval_ends(law, (first.hidden, second.hidden.turned()), level)
        estimate = law.estimate
        return span * estimate, span * min(max(low, -1.0), estimate), span * max(min(high, 1.0), estimate)

    def _law(self, one: str, other: str) -> EstimateLaw:
        first, second = self[one].law, self[other].law
        if self.terms is not None:
            places = list(self.values)
            terms, least, most = self.terms[..., places.index(one)] - self.terms[..., places.index(other)]
            far, mean = np.concatenate([least, most]), np.mean(terms)
            law = mean_law(terms, (float(mean - np.min(far)), float(np.max(far) - mean)))
            return replace(law, value=first.estimate - second.estimate)
        shared = 0.0
        if self.method == "ips":  # a person who weighs for one arm does not for the other: a covariance of -mean mean/n
            product = (first.estimate - 0.5) * (second.estimate - 0.5)
            shared = math.sqrt(2 * max(product, 0.0) / self[one].people)
        return DifferenceLaw(first=first, second=second, apart=self.exclusive, shared=shared)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "best": self.best,
            "values": {name: value.to_dict() for name, value in self.values.items()},
            "guarantee": self.guarantee.to_dict(),
        }

    def __str__(self) -> str:
        ranked = sorted(self.values.items(), key=lambda pair: -pair[1].estimate)
        width = max(len(name) for name in self.values)
        lines = [f"{name:<{width}}  {value.summary()}" for name, value in ranked]
        return "\n".join([*lines, str(self.guarantee)])


@checked_keywords("bd.ope.compare")
def compare(
    log: Log,
    targets: Any,
    *,
    weight_bound: float | None = None,
    privacy: Privacy | None = None,
    method: str = "snips",
    seed: int | None = None,
    path: str = "messages",
) -> Comparison:
    """Estimate the values of several targets from one release.

    Parameters
    ----------
    targets
        A list of targets, or targets by name.
    method : {"snips", "ips"}
        The estimator.
    log, weight_bound, privacy, seed, path
        As for `ips`.

    Returns
    -------
    Comparison
        The values and their differences.
    """
    if not isinstance(log, Log):
        raise InvalidArgument("log", type(log).__name__, "a bd.Log: bd.Log.from_frame(...)")
    validation.one_of("method", method, ("snips", "ips"))
    trust, named = check_privacy(privacy, log), _name_targets(log, targets)
    cases = {name: weigh_known_target(log, target, weight_bound, trust) for name, target in named.items()}
    arms = [target.arm for target in named.values()]
    exclusive = None not in arms and len(set(arms)) == len(arms)
    if not trust.noisy:
        sums = {name: exact_sums(case) for name, case in cases.items()}
    else:
        sums = _release_all(cases, trust, exclusive, seed, path)
    values = {name: value_from_sums(method, cases[name], sums[name], seed) for name in cases}
    shared: dict[str, Any] = {"values": values, "method": method, "exclusive": exclusive}
    if trust.noisy:
        return Comparison(**shared)
    return Comparison(
        **shared, terms=np.stack([_first_order_terms(method, cases[name], values[name]) for name in cases], axis=-1)
    )


def _name_targets(log: Log, targets: Any) -> dict[str, TargetPolicy]:
    if isinstance(targets, Mapping):
        pairs = [(str(name), target) for name, target in targets.items()]
    else:
        some = validation.list_entries("targets", targets, "several targets: a list, or names with targets")
        pairs = [(each if isinstance(each, str) else f"target {place}", each) for place, each in enumerate(some)]
    if not 1 <= len(pairs) <= _MOST or len({name for name, _ in pairs}) != len(pairs):
        raise InvalidArgument("targets", f"{len(pairs)} targets", f"1 to {_MOST:,} targets, all different")
    return {name: to_target_policy(log, target, f"targets[{name!r}]") for name, target in pairs}


def _release_all(
    cases: dict[str, WeightedLog], trust: Privacy, exclusive: bool, seed: Any, path: str
) -> dict[str, WeightedSums]:
    domain = ImportanceWeightDomain(bound=1.0, targets=len(cases), moments=True, exclusive=exclusive)
    weights = np.stack([case.weights / case.bound for case in cases.values()], axis=-1)
    first = next(iter(cases.values()))
    query = ("weights", *(part for case in cases.values() for part in (case.target.query, case.bound)))
    statistic = domain.statistic(weights, first.rewards)
    released = release_sum(trust, statistic, log=first.log, query=query, seed=seed, path=path)
    parts = domain.unpack(released.total)
    sums = {}
    for place, (name, case) in enumerate(cases.items()):
        powers = case.bound ** np.array([1.0, 1.0, 2.0, 2.0, 2.0])[: parts.shape[-1]]
        sums[name] = read_sums(case, parts[place] * powers, released, domain.units * powers)
    return sums


def _first_order_terms(method: str, case: WeightedLog, value: Value) -> Floats:
    """Return each user's contribution to an estimate, to first order: with the logged reward, with 0 and 1, (3, n)."""
    low, high = case.log.reward_range
    centre, weights = value.law.estimate, case.weights
    if method == "ips":
        centre = -low / (high - low)
    elif np.any(weights > 0):
        weights = weights / np.mean(weights)
    rewards = np.stack([case.rewards, np.zeros(case.people), np.ones(case.people)])
    return np.asarray(weights * (rewards - centre))
