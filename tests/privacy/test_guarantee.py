"""Guarantees: the sentences carry the numbers, the dictionary is JSON, the shuffler's view is enumerated."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bandanna.device.linear_report import LinearReport
from bandanna.errors import InvalidArgument
from bandanna.privacy import accountant, gdp
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.calibration import BinomialNoise
from bandanna.privacy.events import BinomialEvent, ClearEvent, ContinualEvent, GaussianEvent, LaplaceEvent
from bandanna.privacy.factorisation import BinaryTree
from bandanna.privacy.guarantee import Guarantee, compute_guarantee
from bandanna.protocols import shuffle_binomial
from bandanna.protocols.shuffle_binomial import ShuffleBinomial

EVENT = GaussianEvent(std=2.0, sensitivity=1.0)


def stated(**changes: Any) -> Guarantee:
    parts: dict[str, Any] = {"trust": "central", "epsilon": 0.75, "delta": 1e-5, "protects": "a user's clicks"}
    return Guarantee(**{**parts, **changes})


def test_the_sentences_state_all_numbers_and_parties() -> None:
    text = str(
        stated(rho=0.125, observers=(("the server", "raw data"), ("everybody", "noisy sums")), adjacency="replacement")
    )
    for part in (
        "Central differential privacy",
        "epsilon = 0.75",
        "delta = 1e-05",
        "0.125-zCDP",
        "a user's clicks",
        "each participation",
        "differ by replacement.",
        "the server sees raw data. Everybody sees noisy sums.",
    ):
        assert part in text, part
    assert "shuffler" not in text


def test_one_participation_and_all_of_them_read_differently() -> None:
    assert "over all participations of a user (at most 7)" in str(stated(unit="user", participations=7))
    assert "each participation" in str(stated())
    assert "zCDP" not in str(stated())  # none is stated


@pytest.mark.parametrize("trust", ["central", "local", "shuffle"])
def test_each_privacy_model_has_its_own_words(trust: str) -> None:
    assert str(stated(trust=trust)).startswith(f"{trust.capitalize()} differential privacy")


def test_no_promise_is_no_promise() -> None:
    for nothing in (stated(trust="none"), stated(epsilon=math.inf)):
        assert str(nothing).startswith("No privacy is promised for a user's clicks.")
        assert "epsilon" not in str(nothing)


def test_only_shuffle_protocols_state_the_view_of_the_shuffler() -> None:
    left = str(stated(trust="shuffle", shuffler=ApproxDP(epsilon=3.25, delta=1e-4)))
    assert "Against the shuffler itself" in left
    assert "the guarantee is epsilon = 3.25, delta = 0.0001 if single reports are kept." in left
    exposed = str(stated(trust="shuffle", exposed=0.976))
    assert "no privacy is left" in exposed
    assert "probability at least 0.976" in exposed
    assert "probability" not in str(stated(trust="shuffle"))
    assert "Against the shuffler" not in str(stated(trust="local", shuffler=ApproxDP(epsilon=1.0, delta=1e-4)))


def test_one_process_is_trusted_unless_roles_run_apart() -> None:
    observers = (("the shuffler", "noisy counts"),)
    one = str(stated(trust="shuffle", observers=observers))
    assert "that process and its files hold all data without noise, and users must trust it." in one
    assert "If the roles run separately, the shuffler sees noisy counts." in one
    apart = str(stated(trust="shuffle", observers=observers, one_process=False, against="the shuffler and X together"))
    assert "one process" not in apart
    assert "The shuffler sees noisy counts. Against the shuffler and X together, no guarantee" in apart
    assert apart.endswith("The shuffler alone learns who sent each report and when.")


@pytest.mark.parametrize(
    "guarantee",
    [
        stated(),
        stated(epsilon=math.inf, rho=math.inf),
        stated(trust="shuffle", shuffler=ApproxDP(epsilon=3.25, delta=1e-4), exposed=0.5),
        stated(rho=0.5, observers=(("a", "b"),), unit="user", participations=3),
    ],
    ids=["plain", "infinite", "shuffle", "user"],
)
def test_the_dictionary_is_strict_json_with_all_fields(guarantee: Guarantee) -> None:
    plain = json.loads(json.dumps(guarantee.to_dict(), allow_nan=False))
    assert plain["trust"] == guarantee.trust
    assert plain["epsilon"] == (None if math.isinf(guarantee.epsilon) else guarantee.epsilon)
    assert plain["rho"] == (None if math.isinf(guarantee.rho) else guarantee.rho)
    assert plain["delta"] == guarantee.delta
    assert plain["observers"] == dict(guarantee.observers)
    assert plain["unit"] == guarantee.unit
    assert plain["participations"] == guarantee.participations
    assert plain["shuffler"] == (None if guarantee.shuffler is None else {"epsilon": 3.25, "delta": 1e-4})
    assert set(plain) == {
        *("trust", "epsilon", "delta", "rho", "protects", "unit", "participations", "adjacency", "adversary"),
        *("batches", "observers", "shuffler", "exposed", "against", "one_process", "seeded"),
    }


@pytest.mark.parametrize(
    ("name", "value"), [("trust", "blind"), ("trust", None), ("unit", "household"), ("adversary", "lazy")]
)
def test_unknown_words_are_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=name):
        stated(**{name: value})


# Computed guarantees


@pytest.mark.parametrize("participations", [1, 4])
def test_the_numbers_are_those_of_the_accountant(participations: int) -> None:
    guarantee = compute_guarantee(EVENT, delta=1e-6, trust="central", protects="x", participations=participations)
    mu = 0.5 * math.sqrt(participations)
    assert guarantee.epsilon == pytest.approx(gdp.epsilon(1e-6, mu), rel=1e-8)
    assert guarantee.rho == pytest.approx(mu**2 / 2)
    assert guarantee.delta == 1e-6
    assert guarantee.unit == ("event" if participations == 1 else "user")
    assert guarantee.participations == participations
    less = compute_guarantee(GaussianEvent(std=1.6, sensitivity=1.0), delta=1e-6, trust="central", protects="x")
    assert less.epsilon > 1.1 * gdp.epsilon(1e-6, 0.5)


def test_continual_release_covers_all_participations_already() -> None:
    event = ContinualEvent(factorisation=BinaryTree(horizon=8), std=4.0, sensitivity=1.0, participations=2)
    one = compute_guarantee(event, delta=1e-6, trust="central", protects="x", participations=2, composed=False)
    assert one.epsilon == accountant.epsilon(event, 1e-6)
    assert one.unit == "user"
    assert one.participations == 2


def test_laplace_noise_is_pure_and_raw_data_has_no_guarantee() -> None:
    pure = compute_guarantee(LaplaceEvent(scale=4.0, sensitivity=1.0), delta=0.0, trust="local", protects="x")
    assert (pure.epsilon, pure.delta) == (0.25, 0.0)
    clear = compute_guarantee(ClearEvent(), delta=1e-6, trust="none", protects="x")
    assert clear.epsilon == math.inf
    assert clear.promise() == "No privacy is promised for x."


# What the shuffler could learn


def local_truth(noise: BinomialNoise, domain: LinearReport) -> float:
    """P(one end of the widest coordinate shows counts that the other end never has), by the two laws of counts."""
    steps = math.floor(noise.scale * domain.reach)
    low = stats.binom.pmf(np.arange(noise.trials + steps + 1), noise.trials, noise.probability)
    high = np.concatenate([np.zeros(steps), low[: noise.trials + 1]])
    return max(float(high[low == 0].sum()), float(low[high == 0].sum()))


def test_nothing_is_left_against_the_shuffler() -> None:
    domain = LinearReport(features=5)
    noise = shuffle_binomial.calibrate_vector_sum(domain, ApproxDP(epsilon=1.0, delta=0.1), 200, 1, "tight")
    assert (noise.scale, noise.trials) == (31.0, 103)
    guarantee = ShuffleBinomial(domain=domain, noise=noise, delta=0.1).guarantee
    assert round(guarantee.exposed, 3) == 0.976
    assert guarantee.exposed == pytest.approx(local_truth(noise, domain), rel=1e-9)
    assert guarantee.shuffler is None
    assert guarantee.epsilon <= 1.0
    assert "no privacy is left" in str(guarantee)
    # for every epsilon: outcomes that one law never shows cannot be bought off
    local = shuffle_binomial.local_vector_event(domain, noise)
    for epsilon in (1.0, 10.0, 100.0):
        assert accountant.delta(local, epsilon) >= guarantee.exposed


@pytest.mark.parametrize(
    ("trials", "probability"), [(5, 0.5), (40, 0.5), (400, 0.5), (400, 0.25), (40, 0.75), (3000, 0.1)]
)
def test_the_exposure_is_that_of_the_enumerated_counts(trials: int, probability: float) -> None:
    domain = LinearReport(features=2)
    noise = BinomialNoise(scale=11.5, trials=trials, users=20, probability=probability)
    truth = local_truth(noise, domain)
    assert shuffle_binomial.exposure_delta(domain, noise) == pytest.approx(truth, rel=1e-9, abs=1e-12)
    if trials == 5:
        assert truth == pytest.approx(1.0, abs=1e-12)


def test_enough_coins_leave_a_local_guarantee() -> None:
    domain = LinearReport(features=1)
    noise = BinomialNoise(scale=8.0, trials=4000, users=10)
    guarantee = ShuffleBinomial(domain=domain, noise=noise, delta=1e-4).guarantee
    assert guarantee.shuffler is not None
    assert guarantee.shuffler.delta == 1e-4
    mass, steps = stats.binom.pmf(np.arange(4001), 4000, 0.5), 16
    p, q = np.concatenate([np.zeros(steps), mass]), np.concatenate([mass, np.zeros(steps)])
    exact = float(np.maximum(p - math.exp(guarantee.shuffler.epsilon) * q, 0).sum())
    assert exact <= 1e-4
    assert guarantee.shuffler.epsilon > guarantee.epsilon  # the shuffler sees more than everybody else


def test_the_view_of_the_shuffler_composes_over_participations() -> None:
    local = BinomialEvent(trials=4000, shift=10.0, reach=10)
    one, four = (
        compute_guarantee(EVENT, delta=1e-5, trust="shuffle", protects="x", participations=m, local=local)
        for m in (1, 4)
    )
    assert one.shuffler is not None
    assert four.shuffler is not None
    assert four.shuffler.epsilon > 1.9 * one.shuffler.epsilon
