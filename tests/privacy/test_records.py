"""Parts of the same features: what a matrix and a vector cost together, by three routes, and when they are joined."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

import bandanna as bd
from bandanna.errors import BudgetExceeded, InvalidArgument
from bandanna.privacy import accountant, events
from bandanna.privacy.budgets import ZCDP
from bandanna.privacy.events import (
    EVENTS,
    BinomialEvent,
    CompositionEvent,
    ContinualEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    RecordEvent,
    RepetitionEvent,
)
from bandanna.privacy.factorisation import BinaryTree
from bandanna.privacy.ledger import Ledger
from bandanna.storage.encoding import Encoding

from ..drawn import examples

PRICES = [(1.0, 1.0), (0.5, 2.0), (0.2, 1.0), (5.0, 12.0), (1.0, 0.01), (0.01, 1.0), (1.0, 4.0)]


def moved(a: Any, b: Any, one: Any, two: Any) -> Any:
    """mu^2 of two people (x, y, w): their distances, from the definition, in units of the worst ones."""
    (x, y, w), (u, v, s) = one, two
    vector = sum((y * i - v * j) ** 2 for i, j in zip(x, u, strict=True))
    matrix = sum((w * i * k - s * j * m) ** 2 for i, j in zip(x, u, strict=True) for k, m in zip(x, u, strict=True))
    return a * matrix / 2 + b * vector / 4


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("a", "b"), PRICES)
@pytest.mark.often(when=lambda a, weighted: a in ((0.5, 5.0) if weighted else (0.5, 0.01)))
def test_no_pair_of_users_costs_more_than_the_closed_form(a: float, b: float, weighted: bool) -> None:
    rng = np.random.default_rng(0)

    def cost(values: Any) -> float:
        (x, y, w), (u, v, s) = (
            (part[:2] / max(1.0, math.hypot(*part[:2])), math.sin(part[2]), math.sin(part[3]) ** 2 if weighted else 1.0)
            for part in values.reshape(2, 4)
        )
        matrix = np.sum((w * np.outer(x, x) - s * np.outer(u, u)) ** 2)
        return -float(a * matrix / 2 + b * np.sum((y * x - v * u) ** 2) / 4)

    starts = rng.normal(size=(6, 8))
    best = max(-optimize.minimize(cost, each, method="Powell", options={"xtol": 1e-9}).fun for each in starts)
    stated = events.price_jointly(a, b, weighted=weighted)
    assert best <= stated * (1 + 1e-12)
    assert best == pytest.approx(stated, rel=1e-4)


def circle(count: int) -> list[tuple[Fraction, Fraction]]:
    """Points of the disc with rational coordinates: 0, and the circle's, by Pythagoras."""
    points = [(Fraction(0), Fraction(0))]
    for m, n in itertools.product(range(count), repeat=2):
        if m or n:
            square = m * m + n * n
            x, y = Fraction(m * m - n * n, square), Fraction(2 * m * n, square)
            points += [(x, y), (-x, y), (x / 2, y / 2)]
    return sorted(set(points))


@pytest.mark.parametrize("weighted", [False, True])
def test_rational_pairs_attain_the_closed_form_exactly(weighted: bool) -> None:
    a, b = Fraction(5), Fraction(12)  # worst at <x, x'> = 3/5: 5 + 6 + 144/80
    weights = (Fraction(0), Fraction(1, 2), Fraction(1)) if weighted else (Fraction(1),)
    rewards = (Fraction(-1), Fraction(0), Fraction(1))
    others = [(x, y, w) for x in circle(4) for y in rewards for w in weights]
    mine = [((Fraction(1), Fraction(0)), y, w) for y in rewards for w in weights]
    worst = max(moved(a, b, one, two) for one in mine for two in others)
    assert worst == (Fraction(29, 2) if weighted else Fraction(64, 5))
    assert events.price_jointly(5.0, 12.0, weighted=weighted) == pytest.approx(float(worst), rel=1e-15)
    half = max(moved(a, b, one, two) for one in others[::3] for two in others[::5])  # shorter ones too
    assert half <= worst


def stick(p: Any, q: Any, epsilon: float) -> float:
    """Hockey-stick divergence of two laws on the same points."""
    return float(np.sum(np.maximum(p - math.exp(epsilon) * q, 0.0)))


def law(trials: tuple[int, int], shift: tuple[int, int]) -> Any:
    """Of a matrix (1 number) and a vector (1 number), shifted, with fair coins on each: exactly."""
    room = 6
    parts = []
    for n, by in zip(trials, shift, strict=True):
        mass = np.zeros(n + 1 + 2 * room)
        mass[room + by : room + by + n + 1] = [math.comb(n, j) / 2**n for j in range(n + 1)]
        parts.append(mass)
    return np.outer(*parts)


@pytest.mark.parametrize(("part", "trials"), [("matrix", (170, 80)), ("weighted", (240, 240))])
def test_exact_laws_of_two_small_releases(part: str, trials: tuple[int, int]) -> None:
    people = [(w * x * x, x * y) for x in (-1, 0, 1) for y in (-1, 1) for w in ((0, 1) if part == "weighted" else (1,))]

    def priced(own: tuple[int, int]) -> Event:
        # the unit of a matrix is 1 and two differ by at most sqrt 2, in one dimension by 1; two vectors by 2
        sums = [
            BinomialEvent(trials=n, shift=shift, reach=2, rounded=False)
            for n, shift in zip(own, (math.sqrt(2), 2.0), strict=True)
        ]
        joined = zip(sums, (part, "vector"), strict=True)
        return CompositionEvent(events=tuple(RecordEvent(event=event, part=which) for event, which in joined))

    def worst(own: tuple[int, int], epsilon: float) -> float:
        laws = {each: law(own, each) for each in people}
        return max(stick(laws[one], laws[two], epsilon) for one in people for two in people)

    event = priced(trials)
    for epsilon in (0.3, 0.6, 1.0):
        assert worst(trials, epsilon) <= accountant.delta(event, epsilon)
    less = (int(0.64 * trials[0]), int(0.64 * trials[1]))
    assert worst(less, 0.6) > accountant.delta(event, 0.6)
    apart = accountant.delta(CompositionEvent(events=tuple(e.event for e in event.events)), 0.6)  # type: ignore
    assert accountant.delta(event, 0.6) < 0.8 * apart


def gaussian(mu: float, sensitivity: float = 2.0, grid: float = 0.0, dim: int = 1) -> GaussianEvent:
    return GaussianEvent(std=sensitivity / mu, sensitivity=sensitivity, dim=dim, grid=grid)


MATRIX = RecordEvent(event=gaussian(1.0, math.sqrt(2)), part="matrix", record="r")
VECTOR = RecordEvent(event=gaussian(1.0), part="vector", record="r")


def square(*parts: Event) -> float:
    whole = CompositionEvent(events=parts)
    found = accountant.price(whole, 1e-12).mu ** 2
    assert accountant.rho(whole) == pytest.approx(found / 2, rel=1e-12)
    return found


def test_only_parts_of_one_record_are_joined() -> None:
    other = RecordEvent(event=gaussian(1.0), part="vector", record="another")
    assert square(MATRIX) == pytest.approx(1.0)
    assert square(VECTOR) == pytest.approx(1.0)
    assert square(VECTOR, VECTOR) == pytest.approx(2.0)
    assert square(MATRIX, MATRIX) == pytest.approx(2.0)
    assert square(MATRIX, VECTOR) == pytest.approx(1.5625)
    assert square(MATRIX, VECTOR.event) == pytest.approx(2.0)
    assert square(MATRIX, other) == pytest.approx(2.0)
    assert square(MATRIX, VECTOR, other) == pytest.approx(2.5625)
    assert square(MATRIX, RepetitionEvent(event=VECTOR, times=3)) == pytest.approx(1 + 1.5 + 9 / 16)
    assert square(MATRIX, VECTOR, gaussian(2.0)) == pytest.approx(5.5625)


def test_a_weighted_matrix_beside_another_one_is_priced_as_weighted() -> None:
    plain, weighted, vector = 0.01, 5.0, 12.0
    parts = [("matrix", plain), ("weighted", weighted), ("vector", vector)]
    noise = GaussianEvent(std=1.0, sensitivity=1.0, dim=1)
    given = [(RecordEvent(event=noise, record="features", part=name), square) for name, square in parts]
    paid = plain + weighted + vector - events.compute_joint_saving(given)
    one, two = ((1.0, 0.0), 1.0, 1.0), ((-1.0, 0.0), 1.0, 0.0)  # opposite features, of which one has no weight
    own = moved(0.0, vector, one, two) + moved(weighted, 0.0, one, two)  # x x^T itself does not move
    assert own > events.price_jointly(plain + weighted, vector, weighted=False)
    assert paid >= own


def test_beside_other_noise_parts_are_priced_apart() -> None:
    laplace = LaplaceEvent(scale=1.0, sensitivity=0.5)
    parts = accountant.epsilon(CompositionEvent(events=(MATRIX, VECTOR, laplace)), 1e-5)
    added = accountant.epsilon(CompositionEvent(events=(MATRIX.event, VECTOR.event, laplace)), 1e-5)
    assert parts == pytest.approx(added)


@examples(40, full=100)
@given(
    st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 1.0),
    st.sampled_from([2.0**-3, 2.0**-8, 2.0**-20]), st.floats(0.2, 3.0), st.floats(0.2, 3.0),
)  # fmt: skip
def test_rounding_is_paid_in_full(
    p: float, q: float, c: float, w: float, s: float, grid: float, mine: float, other: float
) -> None:
    stds = math.sqrt(2) / mine, 2.0 / other
    parts = [
        RecordEvent(event=GaussianEvent(std=stds[0], sensitivity=math.sqrt(2), dim=3, grid=grid * stds[0]),
                    part="weighted"),
        RecordEvent(event=GaussianEvent(std=stds[1], sensitivity=2.0, dim=2, grid=grid * stds[1]), part="vector"),
    ]  # fmt: skip
    t = p * q * c
    change = math.sqrt(max(w**2 * p**4 + s**2 * q**4 - 2 * w * s * t**2, 0.0)), math.sqrt(p**2 + q**2 + 2 * t)
    paid = sum(
        (by + grid * std * math.sqrt(dim)) ** 2 / std**2 for by, std, dim in zip(change, stds, (3, 2), strict=True)
    )
    assert paid <= 2 * accountant.rho(CompositionEvent(events=tuple(parts))) * (1 + 1e-12)


def test_the_worst_pair_pays_for_its_rounding() -> None:
    grid, cosine, stds, dims = 0.05, 0.25, (math.sqrt(2), 2.0), (3, 2)  # both prices are 1 without a grid
    moves = math.sqrt(2 - 2 * cosine**2), math.sqrt(2 + 2 * cosine)
    parts = tuple(
        RecordEvent(event=GaussianEvent(std=std, sensitivity=std, dim=dim, grid=grid), part=part)
        for std, dim, part in zip(stds, dims, ("matrix", "vector"), strict=True)
    )
    paid = sum((by + grid * math.sqrt(dim)) ** 2 / std**2 for by, std, dim in zip(moves, stds, dims, strict=True))
    whole = CompositionEvent(events=parts)
    added = sum((std + grid * math.sqrt(dim)) ** 2 / std**2 for std, dim in zip(stds, dims, strict=True))
    assert 2 * accountant.rho(whole) == pytest.approx(added - 2 + 1.5625, rel=1e-12)
    assert paid <= 2 * accountant.rho(whole)
    assert events.price_jointly(
        *(((std + grid * math.sqrt(dim)) / std) ** 2 for std, dim in zip(stds, dims, strict=True)),
                            weighted=False) < paid  # fmt: skip
    assert accountant.price(whole, 1e-9).mu ** 2 == pytest.approx(2 * accountant.rho(whole), rel=1e-4)


def test_stochastic_rounding_is_paid_in_full() -> None:
    coarse = [
        RecordEvent(event=BinomialEvent(trials=10**6, shift=shift, reach=40, dim=6), part=part)
        for shift, part in ((14.2, "weighted"), (20.0, "vector"))
    ]
    tail, each = 1e-9, [accountant.price(event, 0.5e-9).mu ** 2 for event in coarse]
    unit = accountant.price(BinomialEvent(trials=10**6, shift=1.0, reach=40, dim=6, rounded=False), 0.25e-9).mu ** 2
    both = accountant.price(CompositionEvent(events=tuple(coarse)), tail).mu ** 2
    ideal = [unit * 14.2**2, unit * 20.0**2]
    expected = sum(each) - sum(ideal) + events.price_jointly(*ideal, weighted=True)
    assert both == pytest.approx(expected, rel=1e-9)
    assert sum(each) > 1.25 * sum(ideal)


@given(st.floats(0.0, 9.0), st.floats(0.0, 9.0), st.floats(0.0, 9.0), st.booleans())
def test_more_never_costs_less_and_changing_groups_no_more(a: float, b: float, other: float, weighted: bool) -> None:
    price = events.price_jointly(a, b, weighted=weighted)
    assert max(a, b) * (1 - 1e-12) <= price <= a + b + 1e-12
    assert events.price_jointly(a + 0.5, b, weighted=weighted) >= price
    assert events.price_jointly(a, b + 0.5, weighted=weighted) >= price
    dearer = max(events.price_jointly(a, each, weighted=weighted) for each in (b, other))
    assert a + (b + other) / 4 <= dearer * (1 + 1e-12)


def spend(ledger: Ledger, event: Event, task: str, batch: str = "0", **more: Any) -> None:
    ledger.release(event, task=task, batch=batch, data=batch.encode(), draw=lambda: 0.0, **more)


def test_a_ledger_joins_parts_in_different_tasks() -> None:
    ledger = Ledger(budget=ZCDP(rho=0.79))
    stream = RecordEvent(
        event=ContinualEvent(factorisation=BinaryTree(horizon=1), std=math.sqrt(2), sensitivity=math.sqrt(2)),
        part="matrix", record="r",
    )  # fmt: skip
    spend(ledger, VECTOR, "vectors")
    alone = ledger.spent()
    assert alone == pytest.approx(accountant.epsilon(VECTOR.event, 1e-6))
    spend(ledger, stream, "matrices")
    assert alone < ledger.spent() < accountant.epsilon(CompositionEvent(events=(MATRIX.event, VECTOR.event)), 1e-6)
    spend(ledger, VECTOR, "vectors", "1")  # other people
    assert accountant.is_within_budget(ledger.store.tasks(), 1, ZCDP(rho=1.5625 / 2))
    assert not accountant.is_within_budget(ledger.store.tasks(), 1, ZCDP(rho=0.78))
    with pytest.raises(BudgetExceeded, match="1 steps"):
        spend(ledger, stream, "matrices", "1")
    with pytest.raises(BudgetExceeded):  # features of another task
        spend(ledger, RecordEvent(event=gaussian(0.5), part="vector", record="other"), "elsewhere")
    assert "RecordEvent" in repr(ledger.view().releases[0].event)


@pytest.mark.parametrize("budget", [ZCDP(rho=1.99 / 2), bd.privacy.ApproxDP(epsilon=6.0, delta=1e-5)])
def test_a_user_who_takes_part_twice_has_two_records(budget: bd.privacy.Budget) -> None:
    tasks: dict[str, Counter[Event]] = {"matrices": Counter({MATRIX: 2}), "vectors": Counter({VECTOR: 2})}
    apart = {"matrices": Counter({MATRIX.event: 2}), "vectors": Counter({VECTOR.event: 2})}
    for times in (2, 3):
        assert accountant.compute_spent(tasks, times, 1e-5) == pytest.approx(
            accountant.compute_spent(apart, times, 1e-5)
        )
        assert accountant.is_within_budget(tasks, times, budget) == accountant.is_within_budget(apart, times, budget)
    assert accountant.compute_spent(tasks, 1, 1e-5) < 0.95 * accountant.compute_spent(apart, 1, 1e-5)


def test_batches_of_different_prices_are_priced_by_themselves() -> None:
    large = RecordEvent(event=gaussian(2.2, math.sqrt(2)), part="matrix", record="r")
    either = Counter({MATRIX: 1, RecordEvent(event=gaussian(1.01), part="vector", record="r"): 1})
    tasks: dict[str, Counter[Event]] = {"other": Counter({large: 1}), "either": either}
    worst = max(square(large, each) for each in either)  # the cheaper one of the two
    assert worst == pytest.approx(2.2**2 + 1)
    assert not accountant.is_within_budget(tasks, 1, ZCDP(rho=0.999 * worst / 2))
    sure = accountant.epsilon(gaussian(math.sqrt(worst)), 1e-5)
    assert not accountant.is_within_budget(tasks, 1, bd.privacy.ApproxDP(epsilon=0.999 * sure, delta=1e-5))
    assert accountant.compute_spent(tasks, 1, 1e-5) >= sure


def test_a_batch_that_is_one_entry_is_joined_beside_any_task() -> None:
    one, two = (CompositionEvent(events=(MATRIX, RepetitionEvent(event=VECTOR, times=n))) for n in (1, 2))
    tasks: dict[str, Counter[Event]] = {"batches": Counter({one: 1, two: 1}), "other": Counter({gaussian(1.0): 1})}
    assert accountant.compute_spent(tasks, 1, 1e-5) == pytest.approx(
        accountant.epsilon(CompositionEvent(events=(two, gaussian(1.0))), 1e-5), rel=1e-6
    )


def test_events_are_values_and_malformed_ones_are_refused() -> None:
    encoding = Encoding(EVENTS)
    assert encoding.loads(encoding.dumps(MATRIX)) == MATRIX
    assert hash(MATRIX) != hash(VECTOR)
    assert events.unwrap_all_records(
        RepetitionEvent(event=CompositionEvent(events=(MATRIX,)), times=2)
    ) == RepetitionEvent(event=CompositionEvent(events=(MATRIX.event,)), times=2)
    twice = ContinualEvent(factorisation=BinaryTree(horizon=4), std=1.0, sensitivity=1.0, participations=2)
    for wrong in (
        {"event": LaplaceEvent(scale=1.0, sensitivity=1.0), "part": "matrix"},
        {"event": MATRIX, "part": "matrix"},
        {"event": twice, "part": "matrix"},
        {"event": gaussian(1.0), "part": "tensor"},
        {"event": gaussian(1.0), "part": "matrix", "record": 7},
    ):
        with pytest.raises(InvalidArgument):
            RecordEvent(**wrong)
