"""The papers' printed constants, number by number, and errors outside of their theorems."""

from __future__ import annotations

import math

import pytest

from bandanna.errors import InvalidArgument, InvalidBudget, OutsideTheorem
from bandanna.privacy import calibration
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP

ROWS = [
    # epsilon, delta, then d = 5, 10, 15: std of the batch sum as printed (proofs.md A.5, column "paper")
    (0.2, 0.1, 7368, 8808, 9662),
    (0.2, 1e-5, 17137, 18577, 19431),
    (1.0, 0.1, 1474, 1762, 1932),
    (1.0, 1e-5, 3427, 3715, 3886),
    (10.0, 0.1, 147, 176, 193),
    (10.0, 1e-5, 343, 372, 389),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize("batch", [20, 200, 2000])
def test_the_vector_sum_has_the_printed_std(row: tuple[float, ...], batch: int) -> None:
    epsilon, delta, *stds = row
    for features, std in zip((5, 10, 15), stds, strict=True):
        noise = calibration.paper_binomial_noise(
            features=features, bound=1.0, users=batch, budget=ApproxDP(epsilon=epsilon, delta=delta)
        )
        assert noise.probability == 0.25
        assert noise.scale == max(2 * math.sqrt(batch), features, 4)
        coins = batch * noise.trials * 3 / 16
        assert math.sqrt(coins) / noise.scale == pytest.approx(std, abs=0.5 + 1e-4 * std)
        assert noise.std() == pytest.approx(std, abs=0.5 + 1e-4 * std)


def test_vector_sum_scales_with_the_bound() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    wide, narrow = (calibration.paper_binomial_noise(features=5, bound=b, users=20, budget=budget) for b in (2.0, 1.0))
    assert wide.trials == narrow.trials
    assert wide.std() == pytest.approx(2 * narrow.std())


def test_the_vector_sum_of_returning_users_has_the_printed_coins() -> None:
    noise = calibration.paper_binomial_noise(
        features=5, bound=1.0, users=20, budget=ApproxDP(epsilon=1.0, delta=0.1), participations=7
    )
    horizon, g = 140, 2 * math.sqrt(20)
    printed = 10**7 * math.log(20) * g**2 * horizon * math.log(8 * horizon * 26 / (20 * 0.1)) ** 2 / 20**2
    assert noise.trials == math.ceil(printed)
    assert noise.trials == 77_079_501_652
    assert noise.scale == g


# proofs.md B, column "paper Thm 3.2": std per user; those that the theorem's range admits
PRINTED = [(0.2, 0.1, 20, 27.289), (0.2, 1e-5, 20, 86.782), (0.2, 1e-5, 200, 29.420)]
BEYOND = [
    (0.2, 0.1, 200, 10.103),
    (0.2, 0.1, 2000, 3.601),
    (0.2, 1e-5, 2000, 9.889),
    (1.0, 0.1, 20, 5.458),
    (1.0, 1e-5, 20, 17.356),
    (10.0, 0.1, 20, 0.546),
    (10.0, 1e-5, 2000, 0.198),
]


@pytest.mark.parametrize(("epsilon", "delta", "batch", "std"), PRINTED)
def test_shuffled_reports_have_the_printed_std(epsilon: float, delta: float, batch: int, std: float) -> None:
    ours = calibration.shuffled_report_std(users=batch, budget=ApproxDP(epsilon=epsilon, delta=delta))
    assert ours == pytest.approx(std, rel=1e-4)


@pytest.mark.parametrize(("epsilon", "delta", "batch", "std"), BEYOND)
def test_shuffled_reports_are_refused_beyond_theorem_3_2(epsilon: float, delta: float, batch: int, std: float) -> None:
    bound = math.sqrt(math.log(2 / delta) / batch)
    assert epsilon > bound
    with pytest.raises(OutsideTheorem, match=r"epsilon must be at most .*Thm 3\.2.*tight") as caught:
        calibration.shuffled_report_std(users=batch, budget=ApproxDP(epsilon=epsilon, delta=delta))
    assert f"{bound:.4g}" in caught.value.allowed
    # the formula goes on beyond its range: at the bound it gives the table's value times epsilon / bound
    inside = calibration.shuffled_report_std(users=batch, budget=ApproxDP(epsilon=bound * (1 - 1e-12), delta=delta))
    assert inside * bound / epsilon == pytest.approx(std, rel=3e-3)


def test_shuffled_reports_of_returning_users_follow_theorem_e_3() -> None:
    budget = ApproxDP(epsilon=1.0, delta=1e-5)
    std = calibration.shuffled_report_std(users=100, budget=budget, participations=9)
    assert std == pytest.approx(16 * math.log(2e5) * math.sqrt(900 * math.log(4.5e8)) / 100, rel=1e-12)
    assert std == pytest.approx(261.5, abs=0.1)
    bound = 2 / 100 * math.log(2e5) * math.sqrt(1800)
    with pytest.raises(OutsideTheorem, match=r"Thm E\.3"):
        calibration.shuffled_report_std(users=100, budget=ApproxDP(epsilon=bound * 1.001, delta=1e-5), participations=9)
    calibration.shuffled_report_std(users=100, budget=ApproxDP(epsilon=bound * 0.999, delta=1e-5), participations=9)


def test_the_classical_gaussian_mechanism_stops_at_epsilon_1() -> None:
    budget = ApproxDP(epsilon=0.5, delta=1e-5)
    assert calibration.paper_gaussian_std(sensitivity=2.0, budget=budget) == pytest.approx(19.3792, abs=1e-3)
    for epsilon in (1.0001, 10.0):
        with pytest.raises(OutsideTheorem, match="epsilon"):
            calibration.paper_gaussian_std(sensitivity=2.0, budget=ApproxDP(epsilon=epsilon, delta=1e-5))
    assert calibration.paper_gaussian_std(sensitivity=2.0, budget=ApproxDP(epsilon=1.0, delta=1e-5)) > 0
    assert calibration.paper_gaussian_std(sensitivity=2.0, budget=ZCDP(rho=0.5)) == pytest.approx(2.0)
    assert calibration.paper_gaussian_std(sensitivity=2.0, budget=ZCDP(rho=0.5), participations=4) == pytest.approx(4.0)


def test_local_reports_follow_proposition_f_1_up_to_epsilon_1() -> None:
    assert calibration.report_std(budget=ApproxDP(epsilon=0.5, delta=1e-5)) == pytest.approx(39.8866, abs=1e-3)
    with pytest.raises(OutsideTheorem, match=r"Prop\. F\.1"):
        calibration.report_std(budget=ApproxDP(epsilon=1.01, delta=1e-5))


def test_releases_of_returning_users_share_the_budget_by_theorem_e_2() -> None:
    epsilon, delta, m = 0.5, 1e-5, 6
    share = epsilon / (2 * math.sqrt(2 * m * math.log(2 / delta)))
    assert calibration.paper_gaussian_std(
        sensitivity=2.0, budget=ApproxDP(epsilon=epsilon, delta=delta), participations=m
    ) == pytest.approx(2 * math.sqrt(2 * math.log(1.25 * 2 * m / delta)) / share)
    assert calibration.report_std(budget=ApproxDP(epsilon=epsilon, delta=delta), participations=m) == pytest.approx(
        4 * math.sqrt(2 * math.log(2.5 * 2 * m / delta)) / share
    )
    for call in (
        lambda b: calibration.paper_gaussian_std(sensitivity=1.0, budget=b, participations=m),
        lambda b: calibration.report_std(budget=b, participations=m),
    ):
        with pytest.raises(OutsideTheorem, match=r"Thm E\.2"):
            call(ApproxDP(epsilon=1.0, delta=1e-5))


def test_the_vector_sum_is_refused_beyond_theorem_c_1() -> None:
    shape = {"features": 5, "bound": 1.0, "users": 20}
    for m in (1, 3):
        with pytest.raises(OutsideTheorem, match="epsilon"):
            calibration.paper_binomial_noise(**shape, budget=ApproxDP(epsilon=15.01, delta=1e-5), participations=m)
        with pytest.raises(OutsideTheorem, match="delta"):
            calibration.paper_binomial_noise(**shape, budget=ApproxDP(epsilon=1.0, delta=0.5), participations=m)
    assert calibration.paper_binomial_noise(**shape, budget=ApproxDP(epsilon=15.0, delta=0.499)).trials > 0


def test_budgets_that_the_papers_do_not_have_are_refused() -> None:
    budgets: list[Budget] = [
        PureDP(epsilon=0.1),
        RenyiDP(alpha=2.0, epsilon=0.1),
        ApproxDP(epsilon=0.1, delta=0.0),
        ZCDP(rho=0.1),
    ]
    for budget in budgets:
        with pytest.raises(InvalidBudget, match="budget"):
            calibration.report_std(budget=budget)
        with pytest.raises(InvalidBudget, match="budget"):
            calibration.shuffled_report_std(users=20, budget=budget)
        with pytest.raises(InvalidBudget, match="budget"):
            calibration.paper_binomial_noise(features=2, bound=1.0, users=20, budget=budget)
        if not isinstance(budget, ZCDP):
            with pytest.raises(InvalidBudget, match="budget"):
                calibration.paper_gaussian_std(sensitivity=1.0, budget=budget)


def test_one_user_is_no_batch() -> None:
    budget = ApproxDP(epsilon=0.1, delta=1e-5)
    with pytest.raises(InvalidArgument, match="batch"):
        calibration.shuffled_report_std(users=1, budget=budget)
    with pytest.raises(InvalidArgument, match="batch"):
        calibration.paper_binomial_noise(features=2, bound=1.0, users=1, budget=budget)
