"""An agent with a public map: records stand wherever features do."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bandanna as bd
from bandanna.agent.agent import Agent
from bandanna.data.features.map import Intercept, Map, OneHot, Range, UnitBall
from bandanna.errors import (
    BandannaError,
    BudgetExceeded,
    ClippingWarning,
    FeatureWarning,
    InvalidArgument,
    InvalidStatistic,
)
from bandanna.policies.base import RunnerState
from bandanna.policies.linear.base import WarmStart
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.privacy_model import none

from ..policies.conformance.catalogue import CASES

ARMS = Map(Range(price=(0, 10)), OneHot(site=["a", "b"]), UnitBall(), Intercept())
USERS = Map(Range(price=(0, 10)), OneHot(site=["a", "b"]))
FRAME = pd.DataFrame({"price": [1.0, 2.0, 9.0], "site": ["a", "b", "a"]}, index=["x", "y", "z"])
SHUFFLED = bd.shuffle(epsilon=2.0, delta=1e-3)


def with_arms(features: Map | None = ARMS, **more: Any) -> bd.Agent:
    """A test agent that chooses among arms with features."""
    policy = bd.LinTS(dim=ARMS.dim, horizon=60, intercept=True, privacy=SHUFFLED, batch=20)
    return bd.Agent(policy=policy, features=features, test=True, seed=3, **more)


def with_users(features: Map | None = USERS) -> bd.Agent:
    """A test agent whose arms have models of their own."""
    policy = bd.LinTS(n_arms=2, features=USERS.dim, horizon=60, privacy=SHUFFLED, batch=20)
    return bd.Agent(policy=policy, features=features, arms=["l", "r"], test=True, seed=3)


def test_records_are_what_their_features_are() -> None:
    mapped, plain = with_arms(), with_arms(None)
    features = dict(zip(FRAME.index, ARMS(FRAME), strict=True))
    records = {name: row.to_dict() for name, row in FRAME.iterrows()}
    for form in (FRAME, records):
        assert mapped.act(form) == plain.act(features)
        assert mapped.recommend(form) == plain.recommend(features)
    assert mapped.act(list(records.values())) == plain.act(ARMS(FRAME))
    assert mapped.act_many([FRAME, records]) == plain.act_many([features, features])
    assert mapped.features == ARMS
    assert mapped.mapped.rows == 7 * 3


def test_records_of_users_are_what_their_features_are() -> None:
    mapped, plain = with_users(), with_users(None)
    record = {"price": 3, "site": "b"}
    assert mapped.act(record) == plain.act(USERS(record))
    assert mapped.act(FRAME[:1]) == plain.act(USERS(FRAME)[0])
    assert mapped.act(FRAME.iloc[1]) == plain.act(USERS(FRAME)[1])
    assert mapped.act_many(FRAME) == plain.act_many(USERS(FRAME))
    with pytest.raises(InvalidStatistic, match="the record of one user, got 3"):
        mapped.act(FRAME)
    assert mapped.decisions == 6


def test_arms_that_stay_may_be_records() -> None:
    mapped = with_arms(arms=FRAME)
    plain = with_arms(None, arms=dict(zip(FRAME.index, ARMS(FRAME), strict=True)))
    assert mapped.act_many(30) == plain.act_many(30)


def test_a_save_holds_the_map(tmp_path: Path) -> None:
    for agent in (with_arms(), with_arms(arms=FRAME)):
        contexts = () if agent._runner.arms else (FRAME,)
        for _ in range(25):
            agent.observe(agent.act(*contexts).id, 1.0)
        agent.save(path := tmp_path / f"agent{len(contexts)}")
        again = bd.Agent.load(path)
        assert again.features == ARMS
        assert again.act(*contexts).arm == agent.act(*contexts).arm
        assert again.mapped.rows == (3 if contexts else 0)


def test_a_map_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"with Intercept\(\)"):
        with_arms(USERS)
    with pytest.raises(InvalidArgument, match=r"without Intercept\(\)"):
        with_users(ARMS)
    with pytest.raises(InvalidArgument, match="got a map to 2"):
        with_arms(Map(Range(price=(0, 1)), Intercept()))
    with pytest.raises(InvalidArgument, match=r"a map, as"):
        with_arms({"price": (0, 1)})  # type: ignore[arg-type]


def test_most_records_out_of_range_is_said_once() -> None:
    agent = with_users()
    for _ in range(9):
        agent.act({"price": 99, "site": "a"})
    with pytest.warns(FeatureWarning, match="10 values of 'price' are out of range") as caught:
        agent.act({"price": 99, "site": "a"})
    assert caught[0].filename == __file__
    agent.act({"price": 99, "site": "a"})
    assert agent.mapped.columns["price"].outside == 11


def test_a_refused_record_leaves_nothing() -> None:
    agent = with_arms()
    for odd in (FRAME.rename(columns={"price": "cost"}), [1.0], np.zeros((2, 3)), {"x": 1.0}):
        with pytest.raises(InvalidStatistic):
            agent.act(odd)
    assert agent.decisions == 0


# Arms as a table with names, and reports of an agent that had to be clipped


def agent(**changes: Any) -> Agent:
    """Batches of four."""
    policy = LinUCB(**{"dim": 2, "horizon": 40, "batch": 4, "privacy": none(), **changes})
    return Agent(policy=policy, test=True, seed=0)


def test_arms_of_a_table_have_its_names() -> None:
    table = pd.DataFrame({"price": [0.9, 0.1, 0.2], "taste": [0.0, 0.3, 0.4]}, index=["tea", "coffee", "milk"])
    assert agent().act(table).arm == "tea"
    assert agent().recommend(table) == "tea"
    assert agent().act(table[table.price < 0.5]).arm == "milk"
    assert agent().act(table.reset_index(drop=True)[1:]).arm == 2
    assert [decision.arm for decision in agent().act_many([table, table[1:]])] == ["tea", "milk"]
    assert agent().act(table.to_numpy()).arm == 0
    pairs = pd.DataFrame([[0.1, 0.1], [0.9, 0.0]], index=pd.MultiIndex.from_tuples([("a", 1), ("a", 2)]))
    assert agent().act(pairs).arm == ("a", 2)


def test_tables_of_other_libraries_have_names() -> None:

    class Table:
        index = ("x", "y")

        def to_numpy(self) -> Any:
            return np.array([[0.1, 0.0], [0.9, 0.0]])

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return self.to_numpy()

    assert agent().act(Table()).arm == "y"


@pytest.mark.parametrize(
    ("table", "error", "named"),
    [
        (pd.DataFrame([[0.1, 0.0], [0.9, 0.0]], index=["a", "a"]), InvalidArgument, r"contexts\.index\[1\] must be "),
        (pd.DataFrame([[0.1, 0.0, 0.0]], index=["a"]), InvalidStatistic, r"got an array of shape \(1, 3\)"),
        (pd.DataFrame([[0.1, np.nan]], index=["a"]), InvalidStatistic, "contexts, arm 0, feature 1"),
        (pd.DataFrame([["x", "y"]], index=["a"]), InvalidStatistic, "contexts"),
    ],
)
def test_bad_tables_are_refused_by_name(table: Any, error: type[Exception], named: str) -> None:
    one = agent()
    with pytest.raises(error, match=named):
        one.act(table)
    assert one.decisions == 0


def play(one: Agent, features: list[float], reward: float, count: int) -> None:
    """Decisions that are answered."""
    for _ in range(count):
        one.observe(one.act([features]).id, reward)


def test_an_agent_says_once_that_most_reports_were_clipped(tmp_path: Path) -> None:
    one = agent()
    play(one, [3.0, 4.0], 1.0, 5)  # the fifth closes the first batch
    assert (one.clipped, one.decisions) == (4, 5)
    with pytest.warns(ClippingWarning, match="4 of 4 reports were clipped") as said:
        play(one, [3.0, 4.0], 2.0, 8)
    assert len(said) == 1
    assert said[0].filename == __file__
    assert (one.clipped, one.decisions) == (12, 13)
    one.save(tmp_path / "agent")
    assert Agent.load(tmp_path / "agent").clipped == 12
    assert "clipped" not in repr(one)  # the count is not protected


def test_a_warning_as_error_loses_no_decision() -> None:
    one = agent()
    play(one, [3.0, 4.0], 1.0, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ClippingWarning):
            one.act([[0.1, 0.1]])
        assert one.decisions == 5
        one.act([[0.1, 0.1]])


def test_missing_and_short_reports_are_not_clipped() -> None:
    one = agent()
    play(one, [0.3, 0.4], 1.0, 2)
    play(one, [3.0, 4.0], 1.0, 2)
    one.act_many([[[3.0, 4.0]]] * 4)  # never answered
    one.close()
    assert (one.clipped, one.missing) == (2, 4)
    quiet = agent()
    play(quiet, [0.3, 0.4], 1.0, 8)
    quiet.close()
    assert quiet.clipped == 0


def test_the_last_batch_is_told_about_too() -> None:
    one = agent()
    play(one, [0.3, 0.4], 3.0, 4)
    with pytest.warns(ClippingWarning, match="4 of 4"):
        one.close()


# Warm starts: what a log teaches an agent before its first user is one private sum, which the policy holds


ARMS_WARM_START = ("a", "b")
TRUSTS = [bd.none(), bd.central(epsilon=1.0, delta=1e-5), bd.shuffle(epsilon=1.0, delta=1e-5)]


def log_of(n: int, seed: int = 0) -> bd.Log:
    """Arm b is right where the feature is positive."""
    rng = np.random.default_rng(seed)
    x, arms = rng.choice([-1.0, 1.0], size=(n, 1)), rng.integers(0, 2, n)
    wins = rng.random(n) < np.where(arms == (x[:, 0] > 0), 0.9, 0.1)
    frame = {"x": x[:, 0], "arm": [ARMS_WARM_START[k] for k in arms], "win": wins.astype(float)}
    return bd.Log.from_frame(frame, context=["x"], arm="arm", reward="win", propensity=0.5, arms=ARMS_WARM_START)


def policy(privacy: bd.protocols.Privacy) -> bd.LinTS:
    """For one feature and two arms."""
    return bd.LinTS(n_arms=2, features=1, horizon=1000, privacy=privacy)


@pytest.mark.parametrize("privacy", TRUSTS, ids=lambda each: each.model)
def test_an_agent_knows_what_the_log_says(privacy: bd.protocols.Privacy) -> None:
    agent = bd.Agent(policy=policy(privacy), arms=["b", "a"])
    agent.warm_start(log_of(4000))
    assert [agent.recommend([x]) for x in (-1.0, 1.0)] == ["a", "b"]
    start = agent.policy.start  # type: ignore[attr-defined]
    assert (start.users, start.trust) == (4000, privacy.model)
    assert start.epsilon <= (1.0 if privacy.noisy else np.inf)
    assert agent.guarantee.epsilon == pytest.approx(policy(privacy).guarantee.epsilon)  # of its own users, as before


def test_it_is_saved_with_the_policy(tmp_path: Path) -> None:
    agent = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS_WARM_START, test=True, seed=3)
    agent.warm_start(log_of(500))
    for decision in agent.act_many(log_of(200, 1).contexts):
        agent.observe(decision.id, 1.0)
    agent.save(tmp_path / "agent")
    again = bd.Agent.load(tmp_path / "agent")
    assert again.policy == agent.policy
    np.testing.assert_array_equal(again.snapshot.theta, agent.snapshot.theta)


def test_it_is_the_same_as_having_seen_them() -> None:
    log = log_of(300)
    cold = bd.LinTS(n_arms=2, features=1, horizon=1000, batch=300, privacy=bd.none())
    state = cold.init()
    report = cold._form_statistic(log.contexts, log.rewards, log.arms)
    learned = cold._update(state, bd.device.Estimate(total=report.total(), count=300, variance=0.0))
    warm = replace(cold, start=log.start(cold))
    np.testing.assert_allclose(warm.init().snapshot.theta, learned.snapshot.theta, rtol=1e-12)
    np.testing.assert_allclose(warm.init().snapshot.root, learned.snapshot.root, rtol=1e-12)


def test_its_noise_is_known_to_the_policy() -> None:
    log = log_of(400)
    spreads = []
    for privacy in (bd.none(), bd.central(epsilon=1.0, delta=1e-5), bd.central(epsilon=0.1, delta=1e-5)):
        begun = replace(policy(bd.none()), start=log.start(policy(bd.none()), privacy=privacy, seed=1))
        spreads.append(float(np.linalg.norm(begun.init().snapshot.root)))
    assert spreads[0] < spreads[1] < spreads[2]


def test_a_warm_start_after_a_decision_or_a_save_is_refused(tmp_path: Path) -> None:
    agent = bd.Agent(policy=policy(TRUSTS[0]), arms=ARMS_WARM_START)
    agent.act([1.0])
    with pytest.raises(BandannaError, match="before the first decision"):
        agent.warm_start(log_of(50))
    saved = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS_WARM_START)
    saved.save(tmp_path / "agent")
    with pytest.raises(BandannaError, match="before the first decision"):
        saved.warm_start(log_of(50))
    begun = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS_WARM_START)
    begun.warm_start(log_of(50))
    with pytest.raises(BandannaError, match="spend the log's budget again"):
        begun.warm_start(log_of(50))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda: (bd.LinUCB(dim=1, horizon=10, privacy=bd.none()), None, {}), "a bd.LinTS"),
        (lambda: (policy(TRUSTS[0]), ["x", "y"], {}), "the arms a, b in any order"),
        (lambda: (bd.LinTS(n_arms=2, features=2, horizon=10, privacy=bd.none()), ARMS_WARM_START, {}), "1 features"),
        (
            lambda: (policy(TRUSTS[0]), ARMS_WARM_START, {"privacy": bd.concurrent(epsilon=1.0, delta=1e-5)}),
            "got 'concurrent'",
        ),
    ],
)
def test_what_cannot_begin_so_is_refused(change: Any, words: str) -> None:
    chosen, arms, options = change()
    agent = bd.Agent(policy=chosen, arms=arms)
    with pytest.raises(BandannaError) as caught:
        agent.warm_start(log_of(50), **options)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "parts", [{"total": (0.0,)}, {"users": 0}, {"variance": -1.0}, {"total": (np.nan,) * 10}, {"total": (1e40,) * 10}]
)
def test_a_start_that_is_none_is_refused(parts: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"total": (0.0,) * 10, "users": 5, "variance": 1.0, "epsilon": 1.0, "delta": 0.0,
                             "trust": "central"}  # fmt: skip
    assert policy(bd.none())._domain.dim == 10
    replace(policy(bd.none()), start=WarmStart(**whole))
    with pytest.raises(InvalidArgument):
        replace(policy(bd.none()), start=WarmStart(**whole | parts))
    with pytest.raises(InvalidArgument, match="start"):
        replace(policy(bd.none()), start=3)  # type: ignore[arg-type]


def test_a_ledger_of_the_log_draws_once(tmp_path: Path) -> None:
    people = bd.Ledger(
        budget=bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5), store=bd.privacy.SQLiteStore(tmp_path / "log.ledger")
    )
    starts = []
    for _ in range(2):
        agent = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS_WARM_START)
        agent.warm_start(log_of(500), ledger=people)
        starts.append(agent.policy.start)  # type: ignore[attr-defined]
    assert starts[0] == starts[1]
    with pytest.raises(BandannaError, match="other data"):
        bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS_WARM_START).warm_start(log_of(500, 1), ledger=people)
    bare = bd.Agent(policy=policy(TRUSTS[1]), arms=ARMS_WARM_START)
    bare.warm_start(log_of(500))
    assert bare.policy.start != starts[0]  # type: ignore[attr-defined]


# Features and rewards that are out of range are noticed before a batch is full


def agent_early(**changes: Any) -> bd.Agent:
    """Whose first batch has more than a hundred people."""
    privacy = bd.shuffle(epsilon=1.0, delta=1e-5)
    return bd.Agent(
        policy=bd.LinTS(horizon=4_000, batch=120, privacy=privacy, **(changes or {"dim": 2})), test=True, seed=0
    )


def test_features_that_nobody_scaled_are_noticed_early() -> None:
    one = agent_early()
    for _ in range(9):
        one.act({"a": [44.0, 3.0], "b": [30.0, 4.0]})
    with pytest.warns(ClippingWarning, match="10 of the first 10 features"):
        one.act({"a": [44.0, 3.0], "b": [30.0, 4.0]})
    for _ in range(20):
        one.act({"a": [44.0, 3.0], "b": [30.0, 4.0]})  # said once
    with pytest.warns(ClippingWarning, match="features"):
        agent_early(n_arms=2, features=2).act_many([[3.0, 4.0]] * 20)


def test_stars_instead_of_rewards_are_noticed_early() -> None:
    one = agent_early()
    for stars in (1, 4, 5, 3, 4, 1, 2, 5, 5):
        one.observe(one.act([[0.1, 0.2], [0.3, 0.1]]), stars)
    last = one.act([[0.1, 0.2], [0.3, 0.1]])
    with pytest.warns(ClippingWarning, match=r"of the first 10 rewards.*\[0, 1\]"):
        assert one.observe(last, 4)


def test_a_few_are_let_pass() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = agent_early(dim=3, intercept=True)
        for step in range(30):
            decision = one.act([[0.5, 0.5 + (step == 3), 1.0], [0.2, 0.3, 1.0]])
            one.observe(decision, 1.0 + (step == 4))


# Users' ids: what may be one, and that no message shows it


SETS = np.random.default_rng(0).normal(size=(4, 2, 3)) / 3


def agent_users() -> Agent:
    """Nobody may take part twice."""
    return Agent(policy=bd.LinUCB(dim=3, horizon=20, batch=5, privacy=bd.local(epsilon=1.0, delta=1e-5)))


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int16])
def test_a_numpy_id_counts_as_the_plain_number(kind: type[np.integer[Any]]) -> None:
    mine = agent_users()
    mine.act(SETS[0], user=kind(3))
    for same in (3, "3", np.int32(3)):
        with pytest.raises(BudgetExceeded):
            mine.act(SETS[1], user=same)
    mine.act_many(SETS[:2], users=np.array([4, 5], dtype=kind))
    with pytest.raises(BudgetExceeded):
        mine.act(SETS[1], user=5)


@pytest.mark.parametrize(
    "user",
    [True, np.True_, 3.0, np.float64(3), 10**5000, pd.NA, np.timedelta64(3, "s"), "", b"a", ("a",), np.ma.masked],
    ids=lambda user: type(user).__name__,
)
def test_a_bad_id_is_refused_and_leaves_no_decision(user: Any) -> None:
    mine = agent_users()
    with pytest.raises(InvalidArgument, match=r"^user must be ") as alone:
        mine.act(SETS[0], user=user)
    with pytest.raises(InvalidArgument, match=r"^users\[1\] must be "):
        mine.act_many(SETS[:2], users=["fine", user])
    assert len(str(alone.value)) < 200
    assert mine.decisions == 0
    assert mine.act(SETS[0], user="fine")


@pytest.mark.parametrize(
    "users",
    ["ab", b"ab", 3, {"a": 1, "b": 2}, {"a", "b"}, np.ma.array([1, 2], mask=[0, 1]), ["a"], ["a", "b", "c"], 2.5],
    ids=["text", "bytes", "number", "mapping", "set", "masked", "short", "long", "float"],
)
def test_what_is_no_list_of_users(users: Any) -> None:
    mine = agent_users()
    with pytest.raises(InvalidArgument, match=r"^users must be ") as refused:
        mine.act_many(SETS[:2], users=users)
    assert "one for each set of arms" in str(refused.value)
    assert mine.decisions == 0


@pytest.mark.parametrize("user", ["secretly@example.org" * 50_000, 7_777_777], ids=["long", "number"])
def test_no_message_shows_an_id(user: Any) -> None:
    mine = agent_users()
    mine.act(SETS[0], user=user)
    with pytest.raises(BudgetExceeded) as refused:
        mine.act(SETS[1], user=user)
    assert str(user)[:7] not in str(refused.value)
    assert len(str(refused.value)) < 300


# Whose rows an agent's releases are about, from which states of streams, and under whose names the ledger has them


def test_rows_streams_and_members(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person is in two sums of rows that are forgotten, a stream does not go on from where it was, or somebody who is
    in a release is not in the ledger.
    """
    asked: list[tuple[Any, Any, Any, Any]] = []
    genuine = RunnerState.release

    def release(self: RunnerState, query: Any, statistic: Any, source: Any, **how: Any) -> Any:
        desk, estimate = genuine(self, query, statistic, source, **how)
        asked.append((query, statistic.values.copy(), self.streams.get(0), desk.streams.get(0)))
        return desk, estimate

    monkeypatch.setattr(RunnerState, "release", release)
    policy = bd.make("AdaC-OFUL-JDP", dim=2, horizon=60, batch=5, growth=0.1, rho=50.0)
    agent, rng = Agent(policy=policy, test=True, seed=0), np.random.default_rng(0)
    for number in range(60):
        contexts = rng.normal(size=(1, 2))
        contexts /= 2 * np.linalg.norm(contexts)
        assert agent.observe(agent.act(contexts, user=number).id, 1.0)
    agent.close()
    vectors = Counter(tuple(row) for query, rows, _, _ in asked if query.group != "episode" for row in rows)
    assert len(vectors) > 20  # several episodes
    assert set(vectors.values()) == {1}
    steps = [(before, after) for query, _, before, after in asked if query.group == "episode"]
    assert len(steps) == 12
    assert steps[0][0] is None
    dumps = agent._encoding.dumps
    assert all(dumps(one[1]) == dumps(two[0]) for one, two in pairwise(steps))
    entries = [entry for entry in agent._runner.journals.entries() if entry.task == "agent"]
    assert [len(set(entry.members)) for entry in entries] == [5] * 12
    assert len({person for entry in entries for person in entry.members}) == 60


def test_everybody_of_an_arm_is_in_the_ledger_under_that_arm() -> None:
    policy = bd.make("DP-SE", n_arms=2, horizon=4000, failure=0.5, epsilon=20.0)
    agent = Agent(policy=policy, test=True, seed=0)
    users = agent.next_release
    assert users is not None
    agent.act_many(users, users=list(range(users)))
    agent.close()
    entries = agent._runner.journals.entries()
    assert [len(entry.members) for entry in entries] == [users // 2] * 2
    assert len({person for entry in entries for person in entry.members}) == users
    assert len({(entry.task, entry.batch) for entry in entries}) == 2


def test_a_client_is_in_the_ledger_and_comes_once() -> None:
    arms = np.eye(2)
    agent = Agent(policy=bd.make("CDP-DPE", dim=2, horizon=900, epsilon=5.0, delta=1e-3), arms=arms, test=True, seed=0)
    wanted = agent.clients_wanted
    assert agent.recruit("ann") is not None
    with pytest.raises(bd.errors.BudgetExceeded):
        agent.recruit("ann")
    for number in range(wanted - 1):
        assert agent.recruit(number) is not None
    while not agent.releases:
        agent.act()
    with pytest.raises(bd.errors.BudgetExceeded):
        agent.recruit("ann")
    assert len(agent._runner.journals.entries()[0].members) == wanted


@pytest.mark.parametrize("key", ["GLM-JDP", "GLM-SDP"])
def test_all_asks_of_a_person_are_charged(key: str) -> None:
    policy, rng = CASES[key].policy, np.random.default_rng(1)
    agent = Agent(policy=policy, test=True, seed=0)
    for number in range(CASES[key].rounds):
        assert agent.observe(agent.act(0.3 * rng.normal(size=(4, 2)), user=number).id, float(rng.random()))
    agent.close()
    assert agent.ledger is not None
    if key == "GLM-JDP":
        state, used = agent._runner.progress.state, policy.used  # type: ignore[attr-defined]
        assert state.calls_o == used.calls_o  # the dearest alternative is used up
    assert agent.ledger.spent() == pytest.approx(policy.guarantee.epsilon, rel=1e-6)
