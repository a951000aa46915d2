"""Bad input raises an error of the Bandanna family that says which argument, which value, and what is allowed."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bandanna.device.domain import Ball, Box, Domain, Statistic
from bandanna.device.linear_report import LinearReport
from bandanna.device.noise import FastNoise
from bandanna.errors import (
    BandannaError,
    BudgetExceeded,
    CommunicationWarning,
    ConflictingRelease,
    InvalidArgument,
    InvalidBudget,
    InvalidStatistic,
)
from bandanna.privacy.budgets import ZCDP, ApproxDP, PureDP
from bandanna.privacy.calibration import BinomialNoise, laplace_scale
from bandanna.privacy.factorisation import factorise
from bandanna.privacy.ledger import Ledger
from bandanna.protocols.base import BatchProtocol, Protocol
from bandanna.protocols.clear import Clear
from bandanna.protocols.comparison import PROTOCOL_NAMES, compare_protocols_at_std
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.laplace import CentralLaplace
from bandanna.protocols.randomized_response import LocalBits
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_bits import ShuffleBits
from bandanna.protocols.spherical_cap import LocalUnit

from ..drawn import examples

DOMAIN, USERS, BUDGET = Ball(dim=3), 4, ApproxDP(epsilon=1.0, delta=1e-5)
BATCH: list[BatchProtocol] = [
    Clear(domain=DOMAIN),
    CentralGaussian(domain=DOMAIN, noise_std=3.0),
    LocalGaussian(domain=DOMAIN, noise_std=3.0),
    LocalUnit(domain=DOMAIN, cosine=0.2, chance=0.8, candidates=3),
    ShuffleGaussian(domain=DOMAIN, noise_std=3.0, batch=USERS),
    ShuffleBinomial(domain=DOMAIN, noise=BinomialNoise(scale=4.0, trials=400, users=USERS)),
]
SHARED: dict[str, Any] = {"domain": DOMAIN, "budget": BUDGET}
CALIBRATE: dict[str, Callable[..., Any]] = {
    "central_gaussian": partial(CentralGaussian.calibrate, **SHARED),
    "central_continual": partial(CentralContinual.calibrate, horizon=9, **SHARED),
    "local_gaussian": partial(LocalGaussian.calibrate, **SHARED),
    "shuffle_gaussian": partial(ShuffleGaussian.calibrate, batch=USERS, **SHARED),
    "shuffle_binomial": partial(ShuffleBinomial.calibrate, batch=USERS, **SHARED),
}
each = pytest.mark.parametrize("protocol", BATCH, ids=lambda protocol: protocol.name)
each_calibration = pytest.mark.parametrize("calibrate", CALIBRATE.values(), ids=CALIBRATE.keys())


def fast() -> FastNoise:
    return FastNoise(np.random.default_rng(0))


def refused(
    error: type[InvalidArgument], argument: str, value: Any, act: Callable[..., Any], *given: Any, **named: Any
) -> None:
    """`act` raises exactly this error, and its message names argument and what is allowed.

    It names the value of a setting; of a user's value it names type and shape alone, which `value` is then.
    """
    with pytest.raises(BandannaError) as caught:
        act(*given, **named)
    assert type(caught.value) is error
    assert caught.value.argument == argument
    given_ = str(caught.value.value) if error is InvalidStatistic else caught.value.value
    assert given_ == value or (value != value and given_ != given_)
    hint = caught.value.hint and f". {caught.value.hint}"
    assert str(caught.value) == f"{argument} must be {caught.value.allowed}, got {caught.value.value!r}{hint}"
    assert caught.value.allowed


@each
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_statistics_that_are_not_finite_are_refused(protocol: BatchProtocol, bad: float) -> None:
    values = np.zeros((2, USERS, 3))
    values[1, 2, 0] = bad
    for path in ("messages", "law"):
        given = ("statistics[1, 2, 0]", "a float that is not finite", protocol.release, values, fast())
        refused(InvalidStatistic, *given, path=path)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.nan, "1", None, True])
def test_epsilon_is_a_positive_number(epsilon: Any) -> None:
    refused(InvalidBudget, "epsilon", epsilon, ApproxDP, epsilon=epsilon, delta=1e-5)
    refused(InvalidBudget, "epsilon", epsilon, PureDP, epsilon=epsilon)


@pytest.mark.parametrize("delta", [1, 1.5, -1e-9, math.nan, math.inf, "0.1", None])
def test_delta_is_a_probability_below_one(delta: Any) -> None:
    refused(InvalidBudget, "delta", delta, ApproxDP, epsilon=1.0, delta=delta)
    refused(InvalidBudget, "delta", delta, CentralGaussian, domain=DOMAIN, noise_std=1.0, delta=delta)


@each_calibration
def test_gaussian_and_binomial_noise_is_never_pure(calibrate: Callable[..., Any]) -> None:
    refused(InvalidBudget, "delta", 0.0, calibrate, budget=ApproxDP(epsilon=1.0, delta=0.0))
    assert laplace_scale(sensitivity=2.0, dim=1, budget=ApproxDP(epsilon=1.0, delta=0.0)) >= 2.0  # this one can


@each_calibration
def test_an_infinite_budget_has_no_least_noise(calibrate: Callable[..., Any]) -> None:
    refused(InvalidBudget, "epsilon", math.inf, calibrate, budget=ApproxDP(epsilon=math.inf, delta=1e-5))


@pytest.mark.parametrize("name", ["shuffle_gaussian", "shuffle_binomial"])
@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize("batch", [1, 0, -3, 2.5, math.nan, "20", None, True])
def test_a_shuffle_needs_two_users(name: str, calibration: str, batch: Any) -> None:
    budget = ApproxDP(epsilon=0.01, delta=1e-5)  # inside the papers' theorems
    given = {"calibration": calibration, "budget": budget, "domain": LinearReport(features=2)}
    refused(InvalidArgument, "batch", batch, CALIBRATE[name], batch=batch, **given)


@each_calibration
@pytest.mark.parametrize("participations", [0, -1, 1.5, math.nan, "2", None])
def test_participations_are_counted_from_one(calibrate: Callable[..., Any], participations: Any) -> None:
    refused(InvalidArgument, "participations", participations, calibrate, participations=participations)


@each
def test_a_protocol_refuses_zero_participations(protocol: BatchProtocol) -> None:
    refused(InvalidArgument, "participations", 0, dataclasses.replace, protocol, participations=0)


@each_calibration
@pytest.mark.parametrize("word", ["loose", "", "Tight", None])
def test_unknown_calibrations_are_refused(calibrate: Callable[..., Any], word: Any) -> None:
    refused(InvalidArgument, "calibration", word, calibrate, calibration=word)


@pytest.mark.parametrize("word", ["lbt", "", None])
def test_unknown_continual_mechanisms_are_refused(word: Any) -> None:
    with pytest.raises(InvalidArgument, match="'blt', 'tree'") as caught:
        CALIBRATE["central_continual"](mechanism=word)
    assert caught.value.value == word


@pytest.mark.parametrize("horizon", [0, -5, 2.5, None, "10"])
def test_a_horizon_is_a_whole_number(horizon: Any) -> None:
    refused(InvalidArgument, "horizon", horizon, CALIBRATE["central_continual"], horizon=horizon)


@pytest.mark.parametrize("std", [0.0, -1.0, math.nan, math.inf, "1", None])
def test_noise_is_positive(std: Any) -> None:
    given = {"domain": DOMAIN, "noise_std": std}
    refused(InvalidArgument, "noise_std", std, CentralGaussian, **given)
    refused(InvalidArgument, "noise_std", std, LocalGaussian, **given)
    refused(InvalidArgument, "noise_std", std, ShuffleGaussian, batch=USERS, **given)
    refused(InvalidArgument, "noise_std", std, CentralContinual, factorisation=factorise("tree", horizon=4), **given)


def test_budgets_of_another_kind_are_refused() -> None:
    for name in ("shuffle_gaussian", "shuffle_binomial"):
        refused(InvalidBudget, "budget", ZCDP(rho=0.1), CALIBRATE[name], budget=ZCDP(rho=0.1))
    for name in ("central_gaussian", "central_continual", "local_gaussian"):
        with pytest.raises(InvalidBudget, match="never pure"):
            CALIBRATE[name](budget=PureDP(epsilon=1.0))


def ledger_of(protocol: BatchProtocol) -> tuple[Ledger, Callable[..., Any]]:
    """A ledger that guards the protocol's own budget, and a release of one batch through it."""
    ledger = Ledger(budget=ApproxDP(epsilon=1.0, delta=1e-5), participations=2)

    def release(batch: int, values: Any, seed: int = 0) -> Any:
        source = FastNoise(np.random.default_rng(seed))
        admitted = protocol.admit(values)
        return ledger.release(
            protocol.event, task="sum", batch=batch, data=admitted, draw=lambda: protocol.release(admitted, source)
        )

    return ledger, release


@pytest.mark.parametrize("name", ["central_gaussian", "local_gaussian", "shuffle_gaussian", "shuffle_binomial"])
@pytest.mark.often(when=lambda name: name != "shuffle_gaussian")
def test_other_data_under_a_released_batch_is_refused(name: str) -> None:
    protocol = CALIBRATE[name](participations=2)
    ledger, release = ledger_of(protocol)
    values = np.full((USERS, 3), 0.2)
    first = release(1, values, seed=1)
    spent = ledger.spent()
    assert 0 < spent <= 1.0
    again = release(1, values, seed=2)
    assert np.array_equal(first.total, again.total)
    assert ledger.spent() == spent
    other = values.copy()
    other[0, 0] += 1e-6
    with pytest.raises(ConflictingRelease, match="batch '1' belongs to other data"):
        release(1, other)
    assert ledger.spent() == spent
    release(2, other)
    assert spent < ledger.spent() <= 1.0


def test_more_noise_is_not_the_same_release() -> None:
    calm, loud = (CentralGaussian(domain=DOMAIN, noise_std=std, delta=1e-5) for std in (20.0, 30.0))
    strong = CentralGaussian(domain=DOMAIN, noise_std=0.1, delta=1e-5)
    ledger = Ledger(budget=BUDGET)
    values = DOMAIN.admit(np.full((USERS, 3), 0.2))

    def release(protocol: CentralGaussian, batch: int) -> Any:
        return ledger.release(
            protocol.event, task="sum", batch=batch, data=values, draw=lambda: protocol.release(values, fast())
        )

    release(calm, 1)
    with pytest.raises(ConflictingRelease, match="another mechanism"):
        release(loud, 1)
    with pytest.raises(BudgetExceeded, match="nothing was spent or released"):
        release(strong, 2)
    assert ledger.store.find("sum", "2") is None


REPORT, BALL = LinearReport(features=5), Ball(dim=3)
REFUSALS_BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)


@pytest.mark.parametrize(("std", "batch"), [(1.0, 200), (1.0, 2000), (0.001, 20)])
@pytest.mark.often(when=lambda batch: batch != 200)
def test_little_noise_has_an_answer(std: float, batch: int) -> None:
    rows = compare_protocols_at_std(domain=REPORT, std=std, delta=1e-5, batch=batch)
    assert len(json.loads(json.dumps([row.to_dict() for row in rows], allow_nan=False))) == len(PROTOCOL_NAMES)


def test_statistics_of_another_domain_are_refused() -> None:
    with pytest.raises(InvalidStatistic):
        CentralGaussian(domain=BALL, noise_std=1.0).release(Ball(dim=3, bound=100).admit(np.full((4, 3), 50.0)), fast())


def test_statistics_of_another_dimension_are_refused() -> None:
    protocol = ShuffleBinomial(domain=BALL, noise=BinomialNoise(scale=3.0, trials=30, users=4))
    with pytest.raises(InvalidStatistic):
        protocol.release(Ball(dim=1).admit(np.full((4, 1), 0.5)), fast())


@pytest.mark.parametrize("changed", [{"trials": 0}, {"scale": -3.0}, {"users": 1}, {"probability": 2.0}])
def test_binomial_noise_without_an_event_is_refused(changed: dict) -> None:
    with pytest.raises(InvalidArgument):
        ShuffleBinomial(domain=BALL, noise=BinomialNoise(**{"scale": 3.0, "trials": 30, "users": 4, **changed}))


def test_full_privacy_against_the_shuffler_is_stated() -> None:
    stated = ShuffleBinomial.calibrate(
        domain=REPORT, budget=ApproxDP(epsilon=1.0, delta=0.1), batch=20, calibration="paper"
    ).guarantee
    assert stated.shuffler is not None


@pytest.mark.parametrize("values", [[["a", "b", "c"]] * 4, [[1, 2, 3], [1, 2]]])
def test_statistics_that_are_no_numbers_are_refused(values: list) -> None:
    with pytest.raises(InvalidStatistic):
        Clear(domain=BALL).release(values, fast())


def test_values_that_are_no_budgets_are_refused() -> None:
    with pytest.raises(InvalidBudget):
        CentralGaussian.calibrate(domain=BALL, budget=1.0)


def test_printed_noise_refuses_zero_participations() -> None:
    """participations = 0 is refused by name for the printed vector sum too."""
    with pytest.raises(BandannaError):
        ShuffleBinomial.calibrate(domain=BALL, budget=REFUSALS_BUDGET, batch=4, participations=0, calibration="paper")


def test_the_std_of_a_smaller_batch_is_refused() -> None:
    with pytest.raises(InvalidArgument):
        ShuffleGaussian(domain=BALL, noise_std=1.0, batch=4).std(3)


def test_groups_of_unequal_batches_are_refused() -> None:
    grouped = Statistic(
        domain=BALL, values=np.zeros((2, 2, 3)), clipped=np.zeros(2, dtype=np.int64), counts=np.array([[2, 2], [9, 9]])
    )
    with pytest.raises(BandannaError):
        ShuffleBinomial(domain=BALL, noise=BinomialNoise(scale=3.0, trials=30, users=4)).release(
            grouped, fast(), path="law"
        )


def test_a_large_count_is_sent_in_all_its_bits() -> None:
    """A largest count of 2^50 takes 51 bits."""
    noise = BinomialNoise(scale=1.0, trials=2**50 - 1, users=2)
    assert ShuffleBinomial(domain=Box(dim=1), noise=noise).bits_per_user == 51


DOMAINS: tuple[Domain, ...] = (Box(dim=2), Ball(dim=1, bound=3.0), LinearReport(features=1))
MAKERS: dict[str, Callable[..., Protocol]] = {
    "central": lambda domain, **shared: CentralGaussian.calibrate(domain=domain, **shared),
    "laplace": lambda domain, **shared: CentralLaplace.calibrate(domain=domain, **shared),
    "continual": lambda domain, **shared: CentralContinual.calibrate(domain=domain, horizon=4, **shared),
    "local": lambda domain, **shared: LocalGaussian.calibrate(domain=domain, **shared),
    "local bits": lambda domain, **shared: LocalBits.calibrate(**shared),
    "local unit": lambda domain, **shared: LocalUnit.calibrate(domain=domain, **shared),
    "shuffle": lambda domain, **shared: ShuffleBinomial.calibrate(domain=domain, batch=10, **shared),
    "shuffle bits": lambda domain, **shared: ShuffleBits.calibrate(batch=10, **shared),
    "shuffle gaussian": lambda domain, **shared: ShuffleGaussian.calibrate(domain=domain, batch=10, **shared),
    "concurrent": lambda domain, budget, participations: ConcurrentShuffle.calibrate(
        domain=domain, budget=budget, horizon=20, shufflers=2
    ),
}


def stated(kind: str, domain: Domain, budget: Any, participations: int) -> tuple[float, float] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CommunicationWarning)
        try:
            guarantee = MAKERS[kind](domain, budget=budget, participations=participations).guarantee
        except BandannaError:
            return None
    return guarantee.epsilon, guarantee.delta


sizes = st.floats(-6.0, 3.0).map(lambda exponent: 10.0**exponent)
tiny = st.one_of(st.sampled_from([5e-324, 1e-310, 1e-300]), st.floats(-250.0, -1.0).map(lambda e: 10.0**e))
large = st.floats(1.0, 9.0).map(lambda exponent: 1 - 10.0**-exponent)


@pytest.mark.parametrize("kind", MAKERS)
@examples(2, full=6)
@example(10**2.5, 1e-42, DOMAINS[0], 3)  # the bound rises again between 256 and 512
@example(1.0, 0.999999, DOMAINS[0], 3)
@given(sizes, st.one_of(tiny, large), st.sampled_from(DOMAINS), st.sampled_from([1, 3]))
def test_calibrated_protocols_state_at_most_their_budget(
    kind: str, epsilon: float, delta: float, domain: Domain, participations: int
) -> None:
    found = stated(kind, domain, ApproxDP(epsilon=epsilon, delta=delta), participations)
    assert found is None or (found[0] <= epsilon and found[1] <= delta)


@pytest.mark.parametrize("kind", ["laplace", "local bits", "local unit"])
@pytest.mark.parametrize("epsilon", [1e-300, 1e-6, 30.0, 1e3, 1e300, math.inf])
def test_extreme_pure_budgets_are_met_or_refused(kind: str, epsilon: float) -> None:
    found = stated(kind, DOMAINS[0], PureDP(epsilon=epsilon), 3)
    assert found is None or (found[0] <= epsilon and found[1] == 0)


@pytest.mark.parametrize("kind", MAKERS)
def test_ordinary_budgets_are_taken(kind: str) -> None:
    found = stated(kind, DOMAINS[0], ApproxDP(epsilon=1.0, delta=1e-6), 1)
    assert found is not None
    assert 0.95 <= found[0] <= 1.0


LONG = pytest.param("shuffle gaussian", marks=pytest.mark.full)


@pytest.mark.parametrize("kind", ["central", "continual", "local", "local bits", "local unit", LONG])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [pytest.param(1.0, 0.999999, marks=pytest.mark.full), (1.0, 1 - 1e-9), (590.0, 1e-6)]
)
def test_unusual_budgets_are_taken_and_kept(kind: str, epsilon: float, delta: float) -> None:
    found = stated(kind, DOMAINS[0], ApproxDP(epsilon=epsilon, delta=delta), 1)
    assert found is not None
    assert found[0] <= epsilon
