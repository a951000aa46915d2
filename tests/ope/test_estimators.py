"""Estimators, reward models and reports of values."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.data.ope.targets import render_value_page
from bandanna.errors import BandannaError
from tests.hostile import FIXED, answers_or_refuses

from .worlds import bold, clinic, means, model, trial, worth_of_bold

# Seven logged rounds, by hand: arm, reward, propensity, what the target gives to each arm, what a model expects of it.
SMALL = [
    (0, 1.0, 0.5, (0.2, 0.5, 0.3), (0.4, 0.3, 0.2)),
    (1, 0.0, 0.25, (0.1, 0.8, 0.1), (0.5, 0.1, 0.9)),
    (2, 0.6, 0.25, (0.0, 0.1, 0.9), (0.2, 0.2, 0.7)),
    (1, 1.0, 0.1, (0.3, 0.6, 0.1), (0.3, 0.8, 0.4)),
    (0, 0.3, 0.7, (1.0, 0.0, 0.0), (0.6, 0.5, 0.5)),
    (2, 0.0, 0.2, (0.5, 0.5, 0.0), (0.1, 0.9, 0.3)),
    (1, 0.9, 0.4, (0.25, 0.25, 0.5), (0.7, 0.6, 0.1)),
]
ROWS = list(range(len(SMALL)))


def stored() -> tuple[bd.Log, Any, Any]:
    arms, rewards, chances, target, q = zip(*SMALL, strict=True)
    frame = {"arm": arms, "reward": rewards, "p": chances}
    log = bd.Log.from_frame(frame, arm="arm", reward="reward", propensity="p")
    return log, np.array(target), np.array(q)


def weight(row: int, cut: float = np.inf) -> float:
    arm, _, chance, target, _ = SMALL[row]
    return min(target[arm] / chance, cut)


def expected(row: int) -> float:
    return sum(pi * q for pi, q in zip(SMALL[row][3], SMALL[row][4], strict=True))


def residual(row: int) -> float:
    return SMALL[row][1] - SMALL[row][4][SMALL[row][0]]


def average(of: Callable[[int], float]) -> float:
    return sum(of(row) for row in ROWS) / len(ROWS)


FORMULAS: dict[str, tuple[Callable[..., Any], dict[str, Any], float]] = {
    "ips": (bd.ope.ips, {}, average(lambda i: weight(i) * SMALL[i][1])),
    "ips, cut": (bd.ope.ips, {"weight_bound": 2.0}, average(lambda i: weight(i, 2.0) * SMALL[i][1])),
    "snips": (bd.ope.snips, {}, average(lambda i: weight(i) * SMALL[i][1]) / average(weight)),
    "snips, cut": (
        bd.ope.snips,
        {"weight_bound": 2.0},
        average(lambda i: weight(i, 2.0) * SMALL[i][1]) / average(lambda i: weight(i, 2.0)),
    ),
    "dm": (bd.ope.dm, {"q": None}, average(expected)),
    "dr": (bd.ope.dr, {"q": None}, average(lambda i: expected(i) + weight(i) * residual(i))),
    "dr, cut": (
        bd.ope.dr,
        {"q": None, "weight_bound": 2.0},
        average(lambda i: expected(i) + weight(i, 2.0) * residual(i)),
    ),
    "switch": (
        bd.ope.switch,
        {"q": None, "weight_bound": 2.0},
        average(lambda i: expected(i) + (weight(i) if weight(i) <= 2.0 else 0.0) * residual(i)),
    ),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_estimates_are_the_textbooks(name: str) -> None:
    estimate, options, wanted = FORMULAS[name]
    log, target, q = stored()
    options = options | ({"q": q} if "q" in options else {})
    value = estimate(log, target, **options)
    assert value.estimate == pytest.approx(wanted, abs=1e-9)
    assert any(weight(row) > 2.0 for row in ROWS)  # so that cutting changes something
    assert value.guarantee.trust == "none"
    assert value.noise_std == 0.0


@pytest.mark.parametrize("name", FORMULAS)
def test_rewards_may_have_another_scale(name: str) -> None:
    """Estimates of rewards in [-5, 15] are not those of the same formulas, or intervals leave the range of rewards.

    An estimate of IPS may be outside of the range: then it is an end of its interval.
    """
    estimate, options, _ = FORMULAS[name]
    log, target, q = stored()
    stretched = bd.Log(
        contexts=log.contexts, arms=log.arms, rewards=20 * log.rewards - 5, propensities=log.propensities,
        names=log.names, reward_range=(-5.0, 15.0),
    )  # fmt: skip
    options = options | ({"q": 20 * q - 5} if "q" in options else {})
    cut = options.get("weight_bound", np.inf)
    weights = np.array([weight(i, cut) for i in ROWS])
    if name == "switch":
        weights = np.array([weight(i) if weight(i) <= cut else 0.0 for i in ROWS])
    rewards, model_of, logged = (
        20 * log.rewards - 5,
        np.sum(target * (20 * q - 5), axis=1),
        (20 * q - 5)[ROWS, log.arms],
    )
    wanted = {
        "ips": np.mean(weights * rewards),
        "sni": np.sum(weights * rewards) / np.sum(weights),
        "dm": np.mean(model_of),
    }.get(name[:3], np.mean(model_of + weights * (rewards - logged)))
    value = estimate(stretched, target, **options)
    assert value.estimate == pytest.approx(float(wanted), abs=1e-9)
    low, high = value.interval()
    assert min(-5, value.estimate) <= low <= value.estimate <= high <= max(15, value.estimate)


def test_a_baseline_is_a_control_variate() -> None:
    log, target, _ = stored()
    for b in (0.0, 0.5, 0.9):
        value = bd.ope.ips(log, target, baseline=b)
        assert value.estimate == pytest.approx(average(lambda i, b=b: b + weight(i) * (SMALL[i][1] - b)), abs=1e-9)


def test_sample_sizes_and_clipped_mass_follow_their_formulas() -> None:
    """Effective sample size or clipped mass are not (sum w)^2 / sum w^2 and mean (w - M)^+."""
    log, target, _ = stored()
    weights = np.array([weight(i) for i in ROWS])
    assert bd.ope.snips(log, target).effective_sample_size == pytest.approx(weights.sum() ** 2 / np.sum(weights**2))
    assert bd.ope.snips(log, target).clipped_mass == 0.0
    cut = bd.ope.snips(log, target, weight_bound=2.0)
    assert cut.clipped_mass == pytest.approx(np.mean(np.maximum(weights - 2.0, 0.0)))
    many = clinic(3000, 1)
    (low, high), (least, most) = (bd.ope.snips(many, bold, weight_bound=cut).interval() for cut in (2.0, 8.0))
    assert low < least < most < high


def test_intervals_of_means_have_the_usual_width() -> None:
    log = clinic(20_000, 1)
    for value in (bd.ope.ips(log, bold), bd.ope.dr(log, bold, q=model), bd.ope.snips(log, bold)):
        low, high = value.interval()
        assert (high - low) / 2 == pytest.approx(1.96 * value.stderr, rel=0.02)
        assert low < value.estimate < high
        assert value.interval(0.5)[0] > low


def test_infinite_epsilon_is_no_privacy() -> None:
    log = clinic(500, 2)
    free = bd.ope.snips(log, bold, privacy=bd.central(epsilon=np.inf, delta=1e-5))
    assert free.estimate == bd.ope.snips(log, bold).estimate
    assert not np.isfinite(free.guarantee.epsilon)


def short(log: bd.Log) -> bd.Log:
    """Features of norm at most 1, as reports have them."""
    scale = 3.0
    return bd.Log(contexts=log.contexts / scale, arms=log.arms, rewards=log.rewards, propensities=log.propensities,
                  names=log.names, floor=log.floor)  # fmt: skip


def test_a_model_is_the_regression_of_each_arm() -> None:
    log = short(clinic(4000, 1))
    model = bd.ope.reward_model(log)
    seen = log.contexts / np.maximum(np.linalg.norm(log.contexts, axis=1, keepdims=True), 1.0)
    for arm in range(3):
        rows = log.arms == arm
        x = np.column_stack([seen[rows], np.ones(rows.sum())])
        prior = np.diag([8.0, 8.0, 12.0]) * 0.25  # s^2 / (prior^2 second moment) of slopes and constant
        theta = np.linalg.solve(x.T @ x + prior, x.T @ (log.rewards[rows] - 0.5))
        np.testing.assert_allclose(model.theta[arm], theta, rtol=1e-6)
    assert model.guarantee.trust == "none"
    assert np.corrcoef(model(log.contexts).ravel(), means(log.contexts * 3).ravel())[0, 1] > 0.9


def test_every_user_pays_once() -> None:
    one, two = short(clinic(3000, 2)).split(0.5, seed=1)
    privacy = bd.shuffle(epsilon=1.0, delta=1e-5)
    model = bd.ope.reward_model(one, privacy=privacy, seed=1)
    value = bd.ope.dr(two, lambda x: bold(3 * x), q=model, privacy=privacy, seed=1)
    assert max(model.guarantee.epsilon, value.guarantee.epsilon) <= 1.0
    assert (model.people, value.people) == (1500, 1500)
    low, high = value.interval(0.9999)
    assert low <= worth_of_bold() <= high
    predicted = model(two.contexts)
    assert predicted.shape == (1500, 3)
    assert 0 <= predicted.min() <= predicted.max() <= 1


def test_models_of_arms_with_features_and_without_any() -> None:
    rng = np.random.default_rng(0)
    contexts = rng.uniform(-0.5, 0.5, (3000, 2, 2))
    arms = rng.integers(0, 2, 3000)
    truth = contexts @ np.array([0.6, -0.2])
    log = bd.Log(contexts=contexts, arms=arms, propensities=np.full(3000, 0.5), names=(0, 1),
                 rewards=np.clip(truth[np.arange(3000), arms], 0, 1))  # fmt: skip
    model = bd.ope.reward_model(log)
    assert model(contexts).shape == (3000, 2)
    plain = bd.Log.from_frame({"a": [0, 0, 1, 1] * 500, "r": [5, 5, 10, 0] * 500}, arm="a", reward="r", propensity=0.5,
                              reward_range=(0, 10))  # fmt: skip
    np.testing.assert_allclose(bd.ope.reward_model(plain)(plain.contexts)[0], [5.0, 5.0], atol=0.01)
    direct = bd.ope.dm(plain, "arm:1", q=bd.ope.reward_model(plain))
    assert direct.estimate == pytest.approx(5.0, abs=0.01)
    with pytest.raises(BandannaError, match="shape of contexts"):
        model(np.zeros((3, 2)))


@pytest.mark.parametrize(
    "q", [None, "x", [0.1], lambda x: 1 / 0, lambda x: np.full((20, 3), math.nan), np.zeros((3, 3))]
)
def test_values_that_are_no_models_are_refused(q: object) -> None:
    with pytest.raises(BandannaError):
        bd.ope.dr(clinic(20, 0), bold, q=q)


CENTRAL = bd.central(epsilon=1.0, delta=1e-5)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.outside += [str(value) for name, value in attrs if name in ("src", "href")]


def test_a_report_says_what_matters() -> None:
    text = str(bd.ope.snips(trial(2000, 1), "arm:1", privacy=CENTRAL, seed=1))
    for words in ("SNIPS of always 1: 0.", "95 % interval", "2,000 users", "effective sample size", "at most 4",
                  "privacy noise alone", "epsilon = 1", "seeded"):  # fmt: skip
        assert words in text
    cut = str(bd.ope.ips(clinic(500, 1, floor=None), bold, weight_bound=2.0))
    assert "weights were clipped at 2, which hides up to" in cut
    assert "No privacy is promised" in cut


@pytest.mark.parametrize("private", [False, True])
def test_diagnostics_are_plain_and_show_no_raw_weights(private: bool) -> None:
    options: dict[str, Any] = {"privacy": CENTRAL, "seed": 1} if private else {}
    told = json.loads(json.dumps(bd.ope.snips(clinic(800, 1), bold, **options).diagnostics(), allow_nan=False))
    assert told["people"] == 800
    assert 0 < told["effective_sample_size"] <= 800
    assert 0 < told["sample_share"] <= 1
    raw = {"histogram", "largest_weight", "matched", "least_propensity", "weight_of_largest_percent", "mean_weight"}
    assert raw.isdisjoint(told) if private else raw <= set(told)
    assert (told["noise_share"] > 0) == private


def test_the_overlap_is_that_of_the_weights() -> None:
    log = clinic(500, 1)
    weights = bold(log.contexts)[np.arange(500), log.arms] / log.propensities
    told = bd.ope.overlap(log, bold)
    assert told["mean_weight"] == pytest.approx(weights.mean())
    assert told["largest_weight"] == pytest.approx(weights.max())
    assert sum(told["histogram"]["counts"]) == 500
    assert told["matched"] == 1.0
    assert bd.ope.overlap(trial(400, 0), "arm:1")["matched"] == pytest.approx(0.25, abs=0.1)


@pytest.mark.parametrize("private", [False, True])
def test_a_page_needs_nothing_from_elsewhere(private: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"privacy": CENTRAL, "seed": 1} if private else {}
    value = bd.ope.snips(trial(300, 1), "arm:1", **options)
    value.page(tmp_path / "value.html")
    text = (tmp_path / "value.html").read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    assert tags.seen[:2] == ["html", "meta"]
    assert tags.outside == []
    assert ("is not released" in text) == private
    assert len(re.findall("<svg", text)) == (1 if private else 2)
    assert "<script" not in text


def test_counts_on_a_page_are_written_in_full() -> None:
    value = bd.ope.snips(trial(10_000, 1), "uniform")
    text = render_value_page(value)
    assert "<td>users in the log</td><td>10,000</td>" in text
    assert "<td>effective sample size</td><td>10,000</td>" in text
    assert "<td>least propensity</td><td>0.25</td>" in text
    assert not re.search(r"<td>[^<]*e\+", text)
    large = render_value_page(bd.ope.snips(trial(1_234_567, 1), "arm:1", weight_bound=1e5))
    assert "<td>users in the log</td><td>1,234,567</td>" in large
    assert "<td>weights are clipped at</td><td>100,000</td>" in large


def test_names_in_a_page_are_text(tmp_path: Path) -> None:
    frame = {"arm": ["<b>x</b>", "y"] * 20, "reward": [0, 1] * 20}
    log = bd.Log.from_frame(frame, arm="arm", reward="reward", propensity=0.5)
    bd.ope.snips(log, "arm:<b>x</b>").page(tmp_path / "value.html")
    assert "<b>" not in (tmp_path / "value.html").read_text(encoding="utf-8")
    with pytest.raises(BandannaError):
        bd.ope.snips(log, "uniform").page(tmp_path / "no" / "value.html")


@pytest.mark.parametrize("level", [0.0, 1.0, 2.0, "a", None])
def test_levels_are_probabilities(level: Any) -> None:
    with pytest.raises(BandannaError, match="level"):
        bd.ope.snips(trial(20, 0), "arm:1").interval(level)


LOG = bd.Log.from_frame(
    {"x": [0.1, 0.2, 0.3, 0.4], "arm": [0, 1, 0, 1], "reward": [0, 1, 1, 0]},
    context=["x"], arm="arm", reward="reward", propensity=0.5,
)  # fmt: skip
FRAME = LOG.to_columns()
POLICY = bd.LinTS(n_arms=2, features=1, horizon=4, batch=2, privacy=bd.none())
_columns = {"frame": FRAME, "arm": "arm", "reward": "reward", "propensity": "propensity", "context": (), "arms": None,
            "eligible": None, "reward_range": None, "floor": None}  # fmt: skip
_value = {"log": LOG, "target": "arm:1", "weight_bound": 2.0, "privacy": None, "seed": None, "path": "messages"}
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Log": (bd.Log, {name: getattr(LOG, name) for name in ("contexts", "arms", "rewards", "propensities", "names",
                                                           "eligible", "reward_range", "floor")}),
    "Log.from_frame": (bd.Log.from_frame, _columns),
    "Log.from_decisions": (bd.Log.from_decisions, {"decisions": [], "rewards": [], "contexts": None}),
    "Log.at": (LOG.at, {"rows": [0]}),
    "Log.split": (LOG.split, {"share": 0.5, "seed": 0}),
    "Log.read": (bd.Log.read, {"path": "nothing", "arm": "a", "reward": "r", "propensity": 0.5}),
    "Log.start": (LOG.start, {"policy": POLICY, "privacy": None, "arms": None, "seed": 1}),
    "replay": (bd.replay, {"policy": POLICY, "log": LOG, "n_seeds": 1, "seed": 0, "method": "rejection", "horizon": 4,
                           "shuffled": True, "path": "law"}),
    "ips": (bd.ope.ips, _value | {"baseline": 0.0}),
    "snips": (bd.ope.snips, _value),
    "private": (bd.ope.snips, _value | {"privacy": bd.central(epsilon=1.0, delta=1e-5), "seed": 1, "path": "law"}),
    "dr": (bd.ope.dr, _value | {"q": [0.5, 0.5], "spread": None}),
    "switch": (bd.ope.switch, _value | {"q": [0.5, 0.5]}),
    "dm": (bd.ope.dm, {"log": LOG, "target": "uniform", "q": [0.5, 0.5]}),
    "compare": (bd.ope.compare, _value | {"targets": ["uniform"], "method": "snips"}),
    "overlap": (bd.ope.overlap, {"log": LOG, "target": "uniform", "weight_bound": None}),
    "reward_model": (bd.ope.reward_model, {"log": LOG, "privacy": None, "prior": 0.5, "seed": None}),
    "RewardModel": (bd.ope.reward_model(LOG), {"contexts": np.zeros((2, 1))}),
    "Table": (bd.environments.Table, {"features": np.zeros((2, 1)), "rewards": np.zeros((2, 2)), "resample": True}),
    "Table.from_labels": (bd.environments.Table.from_labels, {"x": np.zeros((2, 1)), "y": [0, 1]}),
}  # fmt: skip
CASES["compare"][1].pop("target")


@pytest.mark.parametrize("name", CASES)
def test_any_value_of_any_argument_is_taken_or_refused(name: str) -> None:
    function, arguments = CASES[name]
    for argument in arguments:
        for value in FIXED:
            answers_or_refuses(lambda a=argument, v=value: function(**{**arguments, a: v}))
