"""View, Table and Interactive DP of small policies, by exact enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.privacy.definitions import ExplicitPolicy
from reproductions.concentrated_dp import definitions, printed_policy

from ..drawn import examples

SIZES = [(3, 2), (2, 3)]  # (T, K)


Adversary = tuple[NDArray[np.int64], ...]  # q_t = adversary[t - 1][o_1, ..., o_t], t = 1, ..., T - 1


def iterate_adversaries(*, rounds: int, arms: int) -> Iterator[Adversary]:
    """Yield every deterministic adversary: prod_{t<T} K^(K^t) of them, 64 for T = 3, K = 2."""
    shapes = [(arms,) * t for t in range(1, rounds)]
    sizes = [arms**t for t in range(1, rounds)]
    for questions in product(range(arms), repeat=sum(sizes)):
        parts = np.split(np.array(questions, dtype=np.int64), np.cumsum(sizes)[:-1]) if sizes else []
        yield tuple(part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))


def make_identity_adversary(*, rounds: int, arms: int) -> Adversary:
    """The adversary who asks for the recommended arm."""
    return tuple(np.indices((arms,) * t, dtype=np.int64)[-1] for t in range(1, rounds))


def compose_with_adversary(policy: ExplicitPolicy, adversary: Adversary) -> ExplicitPolicy:
    """pi^B of [004], Proposition 2(b): it plays on its own, but learns as if q_t = B(o_1, ..., o_t) was played."""
    arms, rewards, lead = policy.arms, policy.rewards, policy.paths.shape[: policy.replicates]
    own = np.indices(policy.paths.shape[policy.replicates :])  # axes o_1, q_1, r_1, ..., o_T; now q_t is its own arm
    index = list(own)
    for t, rule in enumerate(adversary):
        index[3 * t + 1] = rule[tuple(own[3 * s + 1] for s in range(t + 1))]
    paths = policy.paths[(..., *index)].reshape(*lead, *(arms, arms, rewards) * (policy.rounds - 1), arms)
    return ExplicitPolicy(paths=paths, replicates=policy.replicates)


def random_policies(count: int, rounds: int, arms: int, *, seed: int, rewards: int = 2) -> ExplicitPolicy:
    """Many policies at once: mild rules, peaked rules, and rules with zeros."""
    rng = np.random.default_rng([seed, rounds, arms])
    rules = []
    for t in range(rounds):
        shape = rng.choice([0.3, 1.0, 5.0], size=(count, 1, 1))
        rule = rng.gamma(shape, size=(count, (arms * rewards) ** t, arms)) + 1e-12
        rules.append(rule / rule.sum(axis=-1, keepdims=True))
    return ExplicitPolicy.from_rules(rules, rewards=rewards)


def some_policies(rounds: int, arms: int, *, seed: int, count: int = 125) -> ExplicitPolicy:
    """Four times `count` policies; in every fourth of them some arms are never played after some histories."""
    mild = random_policies(3 * count, rounds, arms, seed=seed)
    rng = np.random.default_rng([seed, 7])
    rules = []
    for t in range(rounds):
        rule = rng.gamma(1.0, size=(count, (arms * 2) ** t, arms)) * (rng.random((count, (arms * 2) ** t, arms)) > 0.1)
        rule[..., 0] += np.sum(rule, axis=-1) == 0
        rules.append(rule / rule.sum(axis=-1, keepdims=True))
    return ExplicitPolicy(paths=np.concatenate([mild.paths, ExplicitPolicy.from_rules(rules).paths]), replicates=1)


def plain_deltas(epsilon_factor: Fraction) -> tuple[Fraction, Fraction]:
    """View and Table delta of the printed policy as the paper finds them: every event, in exact fractions.

    A second route: it shares nothing with the library but the printed numbers.
    """
    printed = "2/3; 1/2 1/3 1/4 1/3; 1/2 1/3 1/4 1/5 1/2 2/3 1/4 0 1/3 1/7 3/4 2/5 1/2 1 1/4 2/3"
    first = [rule.split() for rule in printed.split(";")]
    sequences = list(product((0, 1), repeat=3))
    events = list(chain.from_iterable(combinations(range(8), size) for size in range(9)))

    def chance(actions: tuple[int, ...], rewards: tuple[int, ...]) -> Fraction:
        result, history = Fraction(1), 0
        for t, action in enumerate(actions):
            zero = Fraction(first[t][history])
            result *= zero if action == 0 else 1 - zero
            history = 4 * history + 2 * action + rewards[t]
        return result

    def worst(laws: dict[tuple[tuple[int, ...], ...], list[Fraction]]) -> Fraction:
        gains = (
            [p - epsilon_factor * q for p, q in zip(one, other, strict=True)]
            for (d, one), (e, other) in product(laws.items(), repeat=2)
            if sum(x != y for x, y in zip(d, e, strict=True)) == 1
        )
        best = Fraction(0)
        for gain in gains:
            unit = math.lcm(*(part.denominator for part in gain))
            whole = [int(part * unit) for part in gain]
            best = max(best, Fraction(max(sum(whole[i] for i in event) for event in events), unit))
        return best

    views = {tuple((r,) for r in rs): [chance(a, rs) for a in sequences] for rs in product((0, 1), repeat=3)}
    rows = list(product((0, 1), repeat=2))
    tables = {(x, y, (0, 0)): [chance(a, (x[a[0]], y[a[1]], 0)) for a in sequences] for x, y in product(rows, repeat=2)}
    return worst(views), worst(tables)


def test_the_printed_policy_is_view_private_and_not_table_private() -> None:
    found = definitions()
    assert list(found) == [
        "view_delta_at_epsilon",
        "table_delta_at_epsilon",
        "view_epsilon_at_delta",
        "table_epsilon_at_delta",
    ]
    assert found["view_delta_at_epsilon"] <= 0.17 < found["table_delta_at_epsilon"]  # type: ignore[operator]
    assert found["view_epsilon_at_delta"] <= 0.95 < found["table_epsilon_at_delta"]  # type: ignore[operator]
    assert round(found["table_epsilon_at_delta"], 2) == 0.98  # type: ignore[arg-type]


def test_the_printed_policy_by_every_event_in_fractions() -> None:
    factor = Fraction(math.exp(0.95))
    view, table = plain_deltas(factor)
    found = definitions()
    assert found["view_delta_at_epsilon"] == pytest.approx(float(view), abs=1e-15)
    assert found["table_delta_at_epsilon"] == pytest.approx(float(table), abs=1e-15)
    at = definitions(epsilon=0.98, delta=0.17)
    view, table = plain_deltas(Fraction(math.exp(at["table_epsilon_at_delta"])))  # type: ignore[arg-type]
    assert float(table) == pytest.approx(0.17, abs=1e-14)


def test_the_printed_policy_has_no_pure_epsilon() -> None:
    assert definitions(delta=0.0)["view_epsilon_at_delta"] is None
    policy = printed_policy()
    assert policy.table.epsilon(0.0) == policy.table.rho() == policy.view.renyi(2) == math.inf


@pytest.mark.parametrize(("rounds", "arms"), SIZES)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.often(when=lambda seed: seed == 0)
def test_proposition_1_on_a_thousand_policies_of_each_size(rounds: int, arms: int, seed: int) -> None:
    """Pure equivalence, Table => View, and K^T for the way back."""
    policy = some_policies(rounds, arms, seed=seed)
    view, table = policy.view, policy.table
    np.testing.assert_array_equal(view.epsilon(0.0), table.epsilon(0.0))  # (a)
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        assert np.all(view.delta(epsilon) <= table.delta(epsilon) + 1e-15)  # (b)
        assert np.all(table.delta(epsilon) <= arms**rounds * view.delta(epsilon) + 1e-14)  # (d)
    for order in (1.0, 1.01, 1.5, 2.0, 4.0, 32.0, math.inf):
        assert np.all(view.renyi(order) <= table.renyi(order) * (1 + 1e-12))  # (c), order by order
    strict = np.mean(view.delta(0.5) < table.delta(0.5) - 1e-9)
    assert strict > 0.2  # (e) is no rarity


def drawn_policies(rounds: int, arms: int, *, count: int = 20) -> st.SearchStrategy[ExplicitPolicy]:
    """Hypothesis' own: `count` policies at once, weights 0 to 15 for every arm after every history."""
    rows = [(2 * arms) ** t for t in range(rounds)]
    size = count * sum(rows) * arms

    def policy(raw: bytes) -> ExplicitPolicy:
        weights = (np.frombuffer(raw, dtype=np.uint8) % 16).astype(float).reshape(count, sum(rows), arms)
        weights += np.sum(weights, axis=-1, keepdims=True) == 0  # a row of zeros: any arm
        rules = np.split(weights / np.sum(weights, axis=-1, keepdims=True), np.cumsum(rows)[:-1], axis=1)
        return ExplicitPolicy.from_rules(rules)

    return st.binary(min_size=size, max_size=size).map(policy)


EPSILONS = st.floats(0.0, 4.0)
ORDERS = st.sampled_from([1.0, 1.01, 1.5, 2.0, 4.0, 32.0, math.inf])


def proposition_1(policy: ExplicitPolicy, epsilon: float, order: float) -> None:
    """(a) to (d), of each of the policies."""
    view, table = policy.view, policy.table
    np.testing.assert_array_equal(view.epsilon(0.0), table.epsilon(0.0))  # (a)
    assert np.all(view.delta(epsilon) <= table.delta(epsilon) + 1e-15)  # (b)
    assert np.all(view.renyi(order) <= table.renyi(order) * (1 + 1e-12))  # (c), order by order
    assert np.all(table.delta(epsilon) <= policy.arms**policy.rounds * view.delta(epsilon) + 1e-14)  # (d)


def proposition_2(policy: ExplicitPolicy, epsilon: float, order: float) -> None:
    """(a) and (b), of each of the policies; (b) by one adversary after another."""
    assert np.all(policy.table.delta(epsilon) <= policy.interactive.delta(epsilon) + 1e-15)
    assert np.all(policy.table.renyi(order) <= policy.interactive.renyi(order) * (1 + 1e-12))  # (a)
    each = iterate_adversaries(rounds=policy.rounds, arms=policy.arms)
    pretenders = [compose_with_adversary(policy, adversary).table.renyi(order) for adversary in each]
    np.testing.assert_allclose(policy.interactive.renyi(order), np.max(pretenders, axis=0), rtol=1e-9)  # (b)


@examples(25, full=100)
@given(drawn_policies(3, 2), drawn_policies(2, 3), EPSILONS, ORDERS)
def test_proposition_1_on_a_thousand_drawn_policies(
    two: ExplicitPolicy, three: ExplicitPolicy, epsilon: float, order: float
) -> None:
    proposition_1(two, epsilon, order)
    proposition_1(three, epsilon, order)


@pytest.mark.full
@settings(max_examples=34)
@given(drawn_policies(3, 2, count=60), drawn_policies(2, 3, count=60), EPSILONS, ORDERS)
def test_proposition_2_on_thousands_of_drawn_policies(
    two: ExplicitPolicy, three: ExplicitPolicy, epsilon: float, order: float
) -> None:
    proposition_2(two, epsilon, order)
    proposition_2(three, epsilon, order)


@pytest.mark.parametrize("count", [30, 100])
@pytest.mark.often(when=lambda count: count == 30)
@pytest.mark.parametrize(("rounds", "arms"), SIZES)
def test_interactive_zcdp_implies_table_zcdp_and_that_view_zcdp(rounds: int, arms: int, count: int) -> None:
    policy = random_policies(count, rounds, arms, seed=3)
    view, table, interactive = (each.rho() for each in (policy.view, policy.table, policy.interactive))
    assert np.all(view <= table * (1 + 2e-6))
    assert np.all(table <= interactive * (1 + 2e-6))
    assert np.all((view > 0) & (interactive < math.inf))


@pytest.mark.parametrize(("rounds", "arms"), SIZES)
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.often(when=lambda seed: seed == 0)
def test_backward_induction_finds_the_best_of_all_adversaries(rounds: int, arms: int, seed: int) -> None:
    policy = some_policies(rounds, arms, seed=seed, count=8)
    every = list(iterate_adversaries(rounds=rounds, arms=arms))
    assert len(every) == math.prod(arms ** (arms**t) for t in range(1, rounds))
    seen = [policy.against_adversary(adversary) for adversary in every]
    for epsilon in (0.0, 0.7):
        one_by_one = np.max([each.delta(epsilon) for each in seen], axis=0)
        np.testing.assert_allclose(policy.interactive.delta(epsilon), one_by_one, atol=1e-14)
    for order in (1.0, 3.0):
        one_by_one = np.max([each.renyi(order) for each in seen], axis=0)
        np.testing.assert_allclose(policy.interactive.renyi(order), one_by_one, rtol=1e-9)
    least = np.max([each.epsilon(0.05) for each in seen], axis=0)
    np.testing.assert_allclose(policy.interactive.epsilon(0.05), least, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("count", [50, 500])
@pytest.mark.often(when=lambda count: count == 50)
@pytest.mark.parametrize(("rounds", "arms"), SIZES)
def test_proposition_2_on_a_thousand_policies(rounds: int, arms: int, count: int) -> None:
    """Interactive => Table, and <=> every pi^B Table, for Renyi and so for zCDP."""
    policy = random_policies(count, rounds, arms, seed=5)
    following = policy.against_adversary(make_identity_adversary(rounds=rounds, arms=arms))
    np.testing.assert_array_equal(following.laws, policy.table.laws)
    assert np.all(policy.table.delta(0.4) <= policy.interactive.delta(0.4) + 1e-15)  # (a)
    orders = (1.0, 1.3, 2.0, 10.0)
    tables = (compose_with_adversary(policy, each).table for each in iterate_adversaries(rounds=rounds, arms=arms))
    pretenders = np.max([[table.renyi(order) for order in orders] for table in tables], axis=0)  # (orders, policies)
    for order, worst in zip(orders, pretenders, strict=True):
        np.testing.assert_allclose(policy.interactive.renyi(order), worst, rtol=1e-9)  # (b)
        assert np.all(policy.table.renyi(order) <= policy.interactive.renyi(order) * (1 + 1e-12))  # (a)


def test_proposition_2b_does_not_carry_over_to_approximate_dp() -> None:
    """Two outputs may want the same question with different rewards, which one table cannot give. Renyi divergences
    factorise over rounds, so there the best continuation is the same after every output.
    """
    policy = random_policies(150, 3, 2, seed=6)
    pretenders = np.max(
        [compose_with_adversary(policy, b).table.delta(0.3) for b in iterate_adversaries(rounds=3, arms=2)], axis=0
    )
    larger = pretenders > policy.interactive.delta(0.3) + 1e-6
    assert 0 < np.mean(larger) < 0.2
    assert np.all(pretenders > policy.interactive.delta(0.3) - 1e-12)


def test_divergences_along_a_history_keep_theorem_1_of_group_privacy() -> None:
    rng = np.random.default_rng(11)
    for _ in range(20):
        rules = [rng.dirichlet([1.0, 1.0], size=4**t) for t in range(3)]
        rho = ExplicitPolicy.from_rules(rules).interactive.rho()
        for actions, one, other in product(product((0, 1), repeat=2), repeat=3):
            total, history = 0.0, [0, 0]
            for t in range(3):
                p, q = (rules[t][each] for each in history)
                total += float(np.sum(p * np.log(p / q)))
                if t < 2:
                    history = [4 * h + 2 * actions[t] + r[t] for h, r in zip(history, (one, other), strict=True)]
            distance = sum(x != y for x, y in zip(one, other, strict=True))
            assert total <= rho * distance**2 + 1e-12


@examples(30, full=100)
@given(st.floats(0.0, 0.9), st.integers(0, 499))
def test_epsilon_and_delta_are_inverse(delta: float, which: int) -> None:
    policy = INVERSE
    for definition in (policy.view, policy.table, policy.interactive):
        one = type(definition)(laws=definition.laws[which], pairs=definition.pairs, asked=definition.asked)
        epsilon = one.epsilon(delta)
        if math.isfinite(epsilon):
            assert one.delta(epsilon) <= delta + 1e-13
            assert epsilon == 0 or one.delta(epsilon * (1 - 1e-6)) > delta
        else:
            assert one.delta(700.0) > delta


INVERSE = some_policies(3, 2, seed=9)


def test_rho_is_the_supremum_over_a_dense_grid_of_orders() -> None:
    policy = random_policies(12, 3, 2, seed=12)
    orders = np.concatenate([1 + np.geomspace(1e-4, 1, 100), np.geomspace(2, 1e4, 100)])
    for definition in (policy.view, policy.interactive):
        grid = np.max([definition.renyi(order) / order for order in orders], axis=0)
        rho = definition.rho()
        assert np.all(grid <= rho)
        np.testing.assert_allclose(rho, grid, rtol=1e-3)


def test_randomised_response_has_its_known_price() -> None:
    right = math.e / (1 + math.e)
    told = [[right, 1 - right], [1 - right, right]] * 2
    policy = ExplicitPolicy.from_rules([[[0.5, 0.5]], told])
    for definition in (policy.view, policy.table, policy.interactive):
        assert definition.epsilon() == pytest.approx(1.0, rel=1e-12)
        assert definition.delta(0.0) == pytest.approx(2 * right - 1, abs=1e-15)
        order = 2.0
        sums = right**order * (1 - right) ** (1 - order) + (1 - right) ** order * right ** (1 - order)
        assert definition.renyi(order) == pytest.approx(math.log(sums), rel=1e-12)
        assert definition.rho() == pytest.approx((2 * right - 1), rel=2e-6)  # Kullback-Leibler: the order 1 is worst


def test_a_policy_that_ignores_its_rewards_is_perfectly_private() -> None:
    rng = np.random.default_rng(0)
    blind = [np.repeat(rng.dirichlet([1.0, 1.0, 1.0], size=3**t), 2**t, axis=0)[: 6**t] for t in range(2)]
    blind[1] = np.repeat(rng.dirichlet([1.0, 1.0, 1.0], size=3), 2, axis=0)  # by the arm, not by the reward
    for policy in (ExplicitPolicy.from_rules(blind), ExplicitPolicy.from_rules(blind[:1])):
        for definition in (policy.view, policy.table, policy.interactive):
            assert definition.epsilon() == definition.delta(0.0) == definition.rho() == 0.0


def test_large_orders_do_not_overflow() -> None:
    policy = random_policies(3, 2, 2, seed=1)
    np.testing.assert_allclose(policy.interactive.renyi(1e6), policy.interactive.renyi(math.inf), rtol=1e-4)
    assert np.all(policy.interactive.renyi(1e6) <= policy.interactive.renyi(math.inf) * (1 + 1e-12))


def test_malformed_policies_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="rule 1"):
        ExplicitPolicy.from_rules([[[0.5, 0.6]]])
    with pytest.raises(InvalidArgument, match="shape of rule 2"):
        ExplicitPolicy.from_rules([[[0.5, 0.5]], [[0.5, 0.5]] * 3])
    with pytest.raises(InvalidArgument, match="rules"):
        ExplicitPolicy.from_rules([])
    ahead = np.zeros((2, 2, 2, 2))
    ahead[0, :, 0], ahead[1, :, 1] = 0.5, 0.5  # the first arm is the reward that comes after it
    with pytest.raises(InvalidArgument, match="do not depend on later rewards"):
        ExplicitPolicy(paths=ahead)
    with pytest.raises(InvalidArgument, match="shape of paths"):
        ExplicitPolicy(paths=np.ones((2, 3, 2, 2)) / 4)
    with pytest.raises(InvalidArgument, match="sum to 1"):
        ExplicitPolicy(paths=np.ones(2))
    with pytest.raises(InvalidArgument, match=">= 0"):
        ExplicitPolicy(paths=np.array([1.5, -0.5]))
    policy = printed_policy()
    with pytest.raises(InvalidBudget, match="delta"):
        policy.view.epsilon(1.0)
    with pytest.raises(InvalidBudget, match="epsilon"):
        policy.view.delta(-0.1)
    with pytest.raises(InvalidArgument, match="order"):
        policy.view.renyi(0.5)
    with pytest.raises(InvalidBudget, match="epsilon"):
        definitions(epsilon=math.inf)


def test_rows_of_unequal_length_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"rule 2 must be rows of probabilities of one length"):
        ExplicitPolicy.from_rules([[[0.5, 0.5]], [[1.0, 0.0], [1.0]]])
    for first in (0.5, [0.5, 0.5]):
        with pytest.raises(InvalidArgument, match=r"rule 1 must be a list of rows.*Round 1 has one row"):
            ExplicitPolicy.from_rules([first])
