"""All protocols side by side: rows are the protocols' own numbers, the inverse question has the inverse answer."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from bandanna.device.domain import Ball, Domain
from bandanna.device.linear_report import LinearReport
from bandanna.errors import InvalidArgument, InvalidBudget
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ApproxDP
from bandanna.privacy.factorisation import factorise
from bandanna.protocols import comparison
from bandanna.protocols.comparison import (
    PROTOCOL_NAMES,
    ComparisonRow,
    compare_protocols,
    compare_protocols_at_std,
)
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.gaussian import CentralGaussian, LocalGaussian, ShuffleGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.spherical_cap import LocalUnit

REPORT = LinearReport(features=5)
BUDGET = ApproxDP(epsilon=1.0, delta=1e-5)


def table(rows: list[ComparisonRow]) -> dict[str, ComparisonRow]:
    assert tuple(row.protocol for row in rows) == PROTOCOL_NAMES
    return {row.protocol: row for row in rows}


@pytest.fixture(scope="module")
def rows() -> dict[str, ComparisonRow]:
    return table(compare_protocols(domain=REPORT, budget=BUDGET, batch=200))


def test_rows_are_the_protocols_own_numbers(rows: dict[str, ComparisonRow]) -> None:
    common: dict[str, Any] = {"domain": REPORT, "budget": BUDGET}
    for made, std in (
        (CentralGaussian.calibrate(**common), lambda p: p.std(200)),
        (LocalGaussian.calibrate(**common), lambda p: p.std(200)),
        (LocalUnit.calibrate(**common), lambda p: p.std(200)),
        (ShuffleBinomial.calibrate(batch=200, **common), lambda p: p.std(200)),
        (ShuffleGaussian.calibrate(batch=200, **common), lambda p: p.std(200)),
        (CentralContinual.calibrate(horizon=200, **common), lambda p: p.std()),
    ):
        row = rows[made.name]
        assert row.std == std(made)
        assert row.bits_per_user == made.bits_per_user
        assert row.guarantee == made.guarantee
        assert row.guarantee is not None
        assert row.guarantee.epsilon <= 1.0
        assert row.note == ""


def test_ratios_are_to_the_central_mechanism(rows: dict[str, ComparisonRow]) -> None:
    central = rows["central_gaussian"].std
    assert central == pytest.approx(7.914, rel=1e-3)
    for row in rows.values():
        assert row.std is not None
        assert row.ratio_to_central == pytest.approx(row.std / central)
    ordered = ["clear", "central_gaussian", "shuffle_binomial", "shuffle_gaussian", "local_gaussian"]
    ratios = [rows[name].ratio_to_central for name in ordered]
    assert ratios == sorted(ratios)
    assert rows["shuffle_binomial"].std == pytest.approx(8.029, rel=0.02)
    assert rows["local_gaussian"].ratio_to_central == pytest.approx(math.sqrt(200))
    assert rows["local_unit"].std == pytest.approx(0.4221 * rows["local_gaussian"].std, rel=1e-3)


def test_rows_are_json(rows: dict[str, ComparisonRow]) -> None:
    for row in rows.values():
        plain = json.loads(json.dumps(row.to_dict(), allow_nan=False))
        assert {"protocol", "std", "bits_per_user", "epsilon", "delta", "ratio_to_central"} <= plain.keys()
        assert (plain["epsilon"] is None) == (row.protocol == "clear")
        assert plain["delta"] == (0.0 if row.protocol == "local_unit" else 1e-5)


def test_horizon_and_mechanism_concern_the_continual_protocol_only(rows: dict[str, ComparisonRow]) -> None:
    longer = table(compare_protocols(domain=REPORT, budget=BUDGET, batch=200, horizon=20_000))
    tree = table(compare_protocols(domain=REPORT, budget=BUDGET, batch=200, horizon=20_000, mechanism="tree"))
    assert longer["central_continual"].std == pytest.approx(33.5, rel=0.01)
    assert tree["central_continual"].std == pytest.approx(114.7, rel=0.01)
    for name in set(PROTOCOL_NAMES) - {"central_continual"}:
        assert rows[name] == longer[name] == tree[name]


def test_participations_reach_every_protocol(rows: dict[str, ComparisonRow]) -> None:
    """A person in 4 batches: separate batches need about twice the noise, one stream as much as 4 of its columns."""
    four = table(compare_protocols(domain=REPORT, budget=BUDGET, batch=200, participations=4))
    for name, factor in (("central_gaussian", 2.0), ("local_gaussian", 2.0), ("shuffle_binomial", 2.0)):
        assert four[name].std == pytest.approx(factor * rows[name].std, rel=0.02)
    columns = factorise("blt", horizon=200)
    factor = columns.sensitivity(4) / columns.sensitivity()
    assert 3 < factor < 4
    assert four["central_continual"].std == pytest.approx(factor * rows["central_continual"].std, rel=1e-3)
    assert rows["shuffle_gaussian"].std < four["shuffle_gaussian"].std <= four["local_gaussian"].std * (1 + 2**-12)
    for row in four.values():
        assert row.guarantee is not None
        if row.protocol != "clear":
            assert row.guarantee.unit == "user"
            assert row.guarantee.participations == 4


@pytest.mark.parametrize("domain", [Ball(dim=3, bound=2.0), LinearReport(features=2, reward_bound=3.0)])
@pytest.mark.often(when=lambda domain: isinstance(domain, Ball))
def test_any_domain_can_be_compared(domain: Domain) -> None:
    found = table(compare_protocols(domain=domain, budget=BUDGET, batch=200))
    assert found["central_gaussian"].std == pytest.approx(domain.sensitivity * 3.7306, rel=1e-3)
    assert 1 <= found["shuffle_binomial"].ratio_to_central <= 1.03


def test_a_papers_row_is_empty_outside_its_theorem() -> None:
    found = table(compare_protocols(domain=REPORT, budget=BUDGET, batch=200, calibration="paper"))
    empty = found["shuffle_gaussian"]
    assert (empty.std, empty.bits_per_user, empty.guarantee, empty.ratio_to_central) == (None, None, None, None)
    assert "Thm 3.2" in empty.note
    assert found["shuffle_binomial"].std == pytest.approx(3427, rel=1e-3)
    assert "no printed noise" in found["local_unit"].note
    for name in ("central_gaussian", "central_continual", "shuffle_binomial", "local_gaussian"):
        row = found[name]
        assert row.guarantee is not None
        assert row.guarantee.epsilon < 1.0  # the printed noise is more than is needed
        assert row.ratio_to_central == pytest.approx(row.std / found["central_gaussian"].std)
    assert json.loads(json.dumps(empty.to_dict(), allow_nan=False))["epsilon"] is None


def test_without_a_central_row_there_are_no_ratios() -> None:
    found = table(
        compare_protocols(domain=REPORT, budget=ApproxDP(epsilon=2.0, delta=1e-5), batch=200, calibration="paper")
    )
    assert found["central_gaussian"].std is None
    assert found["shuffle_binomial"].std is not None
    assert all(row.ratio_to_central is None for row in found.values())


def test_the_inverse_question_has_the_inverse_answer(
    rows: dict[str, ComparisonRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, row in rows.items():
        if name == "clear":
            continue
        assert row.std is not None
        monkeypatch.setattr(
            comparison, "PROTOCOL_NAMES", ("central_gaussian", name)
        )  # the others have a std of their own
        back = compare_protocols_at_std(domain=REPORT, std=row.std, delta=1e-5, batch=200)[-1]
        assert back.protocol == name
        assert back.guarantee is not None
        assert back.guarantee.epsilon <= 1.0 + 1e-6
        assert back.guarantee.epsilon == pytest.approx(1.0, rel=0.02 if name == "shuffle_binomial" else 1e-3)


@pytest.mark.parametrize("std", [2.0, 8.0, 100.0])
@pytest.mark.often(when=lambda std: std == 8.0)
def test_a_given_noise_is_priced_by_the_accountant(std: float) -> None:
    found = table(compare_protocols_at_std(domain=REPORT, std=std, delta=1e-5, batch=20, horizon=50, participations=2))
    assert found["clear"].std == 0.0
    for name in set(PROTOCOL_NAMES) - {"clear"}:
        row = found[name]
        assert row.std == pytest.approx(std, rel={"shuffle_binomial": 1e-2, "local_unit": 1e-6}.get(name, 1e-12))
        assert row.std <= std * (1 + 1e-12)
        assert row.guarantee is not None
        assert row.guarantee.participations == 2
    local = LocalGaussian(domain=REPORT, noise_std=std / math.sqrt(20), participations=2, delta=1e-5)
    central = CentralGaussian(domain=REPORT, noise_std=std, participations=2, delta=1e-5)
    assert found["local_gaussian"].guarantee.epsilon == local.guarantee.epsilon
    assert found["central_gaussian"].guarantee.epsilon == central.guarantee.epsilon
    binomial, exact = found["shuffle_binomial"].guarantee.epsilon, central.guarantee.epsilon
    assert exact <= binomial <= 1.05 * exact
    assert found["central_gaussian"].guarantee.epsilon <= accountant.epsilon(local.event, 1e-5) * 2


def test_directions_that_do_not_exist_leave_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "PROTOCOL_NAMES", ("central_gaussian", "local_unit"))
    quiet = compare_protocols_at_std(domain=REPORT, std=1.0, delta=1e-5, batch=20)[-1]
    assert (quiet.std, quiet.guarantee) == (None, None)
    assert "no direction has a standard deviation of 0.224" in quiet.note
    flat = compare_protocols(domain=Ball(dim=1), budget=BUDGET, batch=20)[-1]
    assert quiet.protocol == flat.protocol == "local_unit"
    assert "from 2 to 8,192 coordinates" in flat.note


def test_progress_is_reported() -> None:
    told: list[str] = []
    compare_protocols(domain=REPORT, budget=BUDGET, batch=200, progress=told.append)
    assert tuple(told) == PROTOCOL_NAMES
    told.clear()
    compare_protocols_at_std(
        domain=REPORT, std=8.0, delta=1e-5, batch=20, horizon=50, participations=2, progress=told.append
    )
    assert tuple(told) == PROTOCOL_NAMES


@pytest.mark.parametrize(
    ("changed", "argument"),
    [
        ({"batch": 1}, "batch"),
        ({"batch": 2.5}, "batch"),
        ({"participations": 0}, "participations"),
        ({"calibration": "loose"}, "calibration"),
        ({"horizon": 0}, "horizon"),
        ({"horizon": -3}, "horizon"),
        ({"horizon": 1.5}, "horizon"),
    ],
)
def test_bad_settings_are_refused(changed: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        compare_protocols(**{"domain": REPORT, "budget": BUDGET, "batch": 20, **changed})
    assert caught.value.argument == argument


@pytest.mark.parametrize("std", [0.0, -1.0, math.nan, math.inf])
def test_a_given_noise_must_be_a_number(std: float) -> None:
    with pytest.raises(InvalidArgument) as caught:
        compare_protocols_at_std(domain=REPORT, std=std, delta=1e-5, batch=20)
    assert caught.value.argument == "std"


@pytest.mark.parametrize("delta", [1.0, -0.1, math.nan])
def test_a_given_delta_must_be_one(delta: float) -> None:
    with pytest.raises(InvalidBudget) as caught:
        compare_protocols_at_std(domain=REPORT, std=1.0, delta=delta, batch=20)
    assert caught.value.argument == "delta"
