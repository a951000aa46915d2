"""The budget of a log: every private release is charged once, and one that exceeds it is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.errors import BandannaError, BudgetExceeded, InvalidArgument
from bandanna.privacy import ApproxDP, SQLiteStore

from ..trouble import in_a_fork

N = 200
RNG = np.random.default_rng(0)
FRAME = {
    "id": list(range(N)),
    "age": RNG.uniform(-1, 1, N),
    "drug": RNG.choice(["a", "b"], N),
    "won": RNG.integers(0, 2, N).astype(float),
}
WHOLE = bd.central(1.0, 1e-5)
HALF = bd.central(0.5, 5e-6)


def make_log(budget: Any = WHOLE, **changed: Any) -> bd.Log:
    return bd.Log.from_frame({**FRAME, **changed}, context=["age"], arm="drug", arms=["a", "b"], reward="won",
                             propensity=0.5, user="id", budget=budget)  # fmt: skip


def policy() -> bd.LinTS:
    return bd.LinTS(n_arms=2, features=1, horizon=N, privacy=bd.none())


RELEASES: dict[str, Callable[[bd.Log, Any], Any]] = {
    "ips": lambda log, privacy: bd.ope.ips(log, "arm:b", privacy=privacy),
    "snips": lambda log, privacy: bd.ope.snips(log, "arm:b", privacy=privacy),
    "dr": lambda log, privacy: bd.ope.dr(log, "arm:b", q=[0.4, 0.5], privacy=privacy),
    "dm": lambda log, privacy: bd.ope.dm(log, "arm:b", q=[0.4, 0.5], privacy=privacy),
    "compare": lambda log, privacy: bd.ope.compare(log, ["arm:a", "arm:b"], privacy=privacy),
    "reward model": lambda log, privacy: bd.ope.reward_model(log, privacy=privacy),
    "warm start": lambda log, privacy: log.start(policy(), privacy=privacy),
    "warm start of an agent": lambda log, privacy: bd.Agent(policy(), arms=["a", "b"]).warm_start(log, privacy=privacy),
}


@pytest.mark.parametrize("name", RELEASES)
@pytest.mark.parametrize("model", ["central", "shuffle", "local"])
def test_each_private_release_is_charged_and_refused_beyond_the_budget(name: str, model: str) -> None:
    log, release = make_log(), RELEASES[name]
    budget = getattr(bd, model)(0.9, 5e-6)
    assert log.budget is not None
    assert (log.budget.spent, log.budget.total) == (0.0, pytest.approx(1.0))
    release(log, budget)
    spent = log.budget.spent
    assert 0.5 < spent <= 1.0
    assert log.budget.remaining == pytest.approx(1.0 - spent)
    other = RELEASES["dr"] if name != "dr" else RELEASES["reward model"]
    with pytest.raises(BudgetExceeded, match="nothing was spent or released"):
        other(log, budget)
    assert log.budget.spent == spent


def test_releases_compose_as_the_accountant_says() -> None:
    log = make_log()
    RELEASES["dr"](log, HALF)
    once = log.budget.spent  # type: ignore[union-attr]
    RELEASES["reward model"](log, HALF)
    assert once < log.budget.spent <= 1.0  # type: ignore[union-attr]
    reference = bd.Ledger(budget=ApproxDP(epsilon=1.0, delta=1e-5))
    for number, entry in enumerate(log.ledger.store.entries()):  # type: ignore[union-attr]
        reference.release(entry.event, task=str(number), batch=0, data=b"", draw=lambda: 0)
    assert log.budget.spent == reference.spent()  # type: ignore[union-attr]


def test_the_same_release_is_returned_and_not_drawn_again() -> None:
    log = make_log()
    first = bd.ope.snips(log, "arm:b", privacy=HALF)
    spent = log.budget.spent  # type: ignore[union-attr]
    again = bd.ope.snips(log, "arm:b", privacy=HALF)
    assert again.estimate == first.estimate
    assert bd.ope.ips(log, "arm:b", privacy=HALF).people == N  # from the same released sum
    assert log.budget.spent == spent  # type: ignore[union-attr]
    seeded = bd.ope.snips(log, "arm:b", privacy=HALF, seed=1)  # seeded noise is another release
    assert seeded.estimate != first.estimate
    assert log.budget.spent > spent  # type: ignore[union-attr]
    assert bd.ope.snips(log, "arm:b", privacy=HALF).estimate == first.estimate


@pytest.mark.parametrize("budget", [WHOLE, bd.shuffle(1.0, 1e-5), ApproxDP(epsilon=1.0, delta=1e-5)])
@pytest.mark.parametrize("name", RELEASES)
def test_a_release_takes_the_whole_budget_by_default(name: str, budget: Any) -> None:
    log = make_log(budget)
    RELEASES[name](log, None)
    assert log.budget is not None
    assert 0.97 < log.budget.spent <= 1.0
    with pytest.raises(BudgetExceeded):
        bd.ope.snips(log, "uniform")


def test_another_target_or_noise_level_is_another_release() -> None:
    log = make_log()
    bd.ope.snips(log, "arm:b", privacy=HALF)
    spent = [log.budget.spent]  # type: ignore[union-attr]
    for target, privacy in (("arm:a", bd.central(0.2, 1e-6)), ("arm:b", bd.central(0.2, 1e-6))):
        bd.ope.snips(log, target, privacy=privacy)
        spent.append(log.budget.spent)  # type: ignore[union-attr]
    assert spent[0] < spent[1] < spent[2]


def test_parts_and_copies_of_a_log_share_its_budget() -> None:
    log = make_log()
    for part in (*log.split(0.5), log.ordered(["b", "a"]), log.at(slice(50)), copy.copy(log), copy.deepcopy(log)):
        assert part.ledger is log.ledger
    with pytest.raises(BandannaError, match="both copies would spend"):
        pickle.dumps(log)
    assert pickle.loads(pickle.dumps(make_log(None))) == make_log(None)


def test_exact_values_and_logs_without_budget_are_not_charged() -> None:
    log = make_log()
    bd.ope.snips(log, "arm:b", privacy=bd.none())
    log.start(policy(), privacy=bd.none())
    assert log.budget.spent == 0.0  # type: ignore[union-attr]
    free = make_log(None)
    assert free.budget is None
    assert bd.ope.snips(free, "arm:b", privacy=WHOLE).estimate != bd.ope.snips(free, "arm:b", privacy=WHOLE).estimate


def test_a_ledger_is_shared_and_survives_the_process(tmp_path: Path) -> None:
    def ledger() -> bd.Ledger:
        return bd.Ledger(budget=ApproxDP(epsilon=1.0, delta=1e-5), store=SQLiteStore(tmp_path / "log.ledger"))

    first = bd.ope.snips(make_log(ledger()), "arm:b", privacy=WHOLE)
    later = make_log(ledger())
    assert bd.ope.snips(later, "arm:b", privacy=WHOLE).estimate == first.estimate
    with pytest.raises(BudgetExceeded):
        bd.ope.snips(later, "arm:a", privacy=WHOLE)
    with pytest.raises(InvalidArgument, match="a budget of its own"):
        later.start(policy(), privacy=HALF, ledger=ledger())
    own = bd.Ledger(budget=ApproxDP(epsilon=1.0, delta=1e-5))
    bd.features.fit_privately(FRAME, {"age": (-1, 1)}, privacy=WHOLE, ledger=own)
    with pytest.raises(BudgetExceeded):
        bd.ope.snips(make_log(own), "arm:a", privacy=HALF)


def test_users_with_several_rows_get_no_private_release() -> None:
    log = make_log(id=[0, 0, *range(2, N)])
    assert bd.ope.snips(log, "arm:b", privacy=bd.none()).people == N
    for name, release in RELEASES.items():
        with pytest.raises(InvalidArgument, match="a log with a row for each user"):
            release(log, HALF)
        assert log.budget.spent == 0.0, name  # type: ignore[union-attr]


def test_decisions_of_an_agent_make_a_log_with_a_budget() -> None:
    agent = bd.Agent(policy(), arms=["a", "b"])
    decisions = agent.act_many(np.zeros((10, 1)))
    options: dict[str, Any] = {"rewards": [1.0] * 10, "contexts": np.zeros((10, 1)), "arms": ["a", "b"], "floor": 0.1}
    log = bd.Log.from_decisions(decisions, users=[1] * 10, budget=WHOLE, **options)
    with pytest.raises(InvalidArgument, match="row for each user"):
        bd.ope.snips(log, "uniform", privacy=HALF)
    log = bd.Log.from_decisions(decisions, users=range(10), budget=ApproxDP(epsilon=1.0, delta=1e-5), **options)
    bd.ope.snips(log, "uniform", privacy=HALF)
    assert log.budget is not None
    assert log.budget.spent > 0.4


def test_a_budget_is_a_privacy_model_a_budget_or_a_ledger() -> None:
    assert make_log(bd.none()).budget is None
    with pytest.raises(InvalidArgument, match="budget must be a privacy model such as"):
        make_log(1.0)


def test_two_functions_are_charged_twice_whether_they_agree_on_all_users_or_not() -> None:
    third = bd.central(0.3, 2e-6)
    rare = FRAME["age"][7]
    spent = []
    for age in (FRAME["age"], np.where(np.arange(N) == 7, 0.5, FRAME["age"])):
        log = make_log(age=age)
        one = bd.ope.ips(log, lambda contexts: np.ones(len(contexts), int), privacy=third)
        other = bd.ope.ips(log, lambda contexts: np.where(contexts[:, 0] == rare, 0, 1), privacy=third)
        assert one.estimate != other.estimate
        assert bd.ope.dr(log, "arm:b", q=lambda _: [0.4, 0.5], privacy=bd.central(0.1, 1e-6)).people == N
        spent.append(log.budget.spent)  # type: ignore[union-attr]
    assert spent[0] == spent[1] > 0.4


def test_parts_of_other_rows_are_charged_separately_although_their_sums_are_equal() -> None:
    log = make_log(won=np.ones(N), drug=["a"] * N)
    parts = [log.at(slice(0, 50)), log.at(slice(50, 100)), log.at(np.arange(50))]
    counts = []
    for part in parts:
        bd.ope.snips(part, "arm:a", privacy=bd.central(0.3, 2e-6))
        counts.append(len(log.ledger.store.entries()))  # type: ignore[union-attr]
    assert counts == [1, 2, 2]


def test_the_same_learned_policy_and_reward_model_are_one_release() -> None:
    log, small = make_log(), bd.central(0.2, 2e-6)
    agent, model = bd.Agent(policy(), arms=["a", "b"]), bd.ope.reward_model(make_log(None))
    for _ in range(2):
        bd.ope.snips(log, agent, privacy=small)
        bd.ope.dr(log, "arm:b", q=model, privacy=small)
    assert len(log.ledger.store.entries()) == 2  # type: ignore[union-attr]


def test_a_part_with_a_row_twice_gets_no_private_release() -> None:
    log = make_log()
    twice = log.at([7] * 50)
    for release in RELEASES.values():
        with pytest.raises(InvalidArgument, match="a log with a row for each user"):
            release(twice.ordered(["a", "b"]), HALF)
    assert log.budget.spent == 0.0  # type: ignore[union-attr]
    assert bd.ope.snips(twice, "arm:b", privacy=bd.none()).people == 50


def test_a_forked_process_cannot_spend_the_budget_of_a_log() -> None:
    log = make_log()
    assert in_a_fork(lambda: bd.ope.snips(log, "arm:b")) == ["BandannaError"]
    assert bd.ope.snips(log, "arm:b").people == N


def test_a_warm_start_finds_the_number_of_arms_in_the_log() -> None:
    unknown = bd.LinTS(features=1, horizon=N, privacy=bd.none())
    assert make_log().start(unknown, seed=1) == make_log().start(policy(), seed=1)
