"""Whatever is put into logs and estimates: an answer, or one line of the Bandanna family."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from tests.hostile import FIXED, answers_or_refuses

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
def test_any_value_of_any_argument(name: str) -> None:
    """Some value of some argument makes another error than ours, or a message of several lines."""
    function, arguments = CASES[name]
    for argument in arguments:
        for value in FIXED:
            answers_or_refuses(lambda a=argument, v=value: function(**{**arguments, a: v}))
