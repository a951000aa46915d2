from __future__ import annotations

import numpy as np
import pytest

from bandanna.errors import BandannaError, InvalidArgument
from bandanna.experiments.experiment import Experiment
from bandanna.policies.glm.glm_jdp import GLMJDP
from bandanna.policies.glm.glm_sdp import GLMSDP
from bandanna.policies.glm.rs_glinucb import RSGLinUCB
from bandanna.simulation.engine import simulate

FILE = {
    "title": "Clicks",
    "horizon": 60,
    "seeds": 2,
    "environment": {"name": "GeneralisedLinear", "dim": 2, "n_arms": 4, "link": "probit", "norm": 1.5},
    "algorithm": [
        {"name": "RS-GLinUCB", "link": "probit", "parameter_bound": 1.5, "constants": "published"},
        {"name": "GLM-JDP", "link": "probit", "parameter_bound": 1.5, "epsilon": [2.0, 8.0], "delta": 1e-3},
        {"name": "GLM-SDP", "link": "probit", "parameter_bound": 1.5, "epsilon": 2.0, "delta": 1e-3},
    ],
}


def test_a_file_sets_generalised_linear_policies() -> None:
    made = Experiment.from_dict(FILE)
    policies = [curve.policy(dim=2, horizon=60) for curve in made.curves]
    assert [type(policy) for policy in policies] == [RSGLinUCB, GLMJDP, GLMJDP, GLMSDP]
    assert policies[2].privacy.budget.epsilon == 8.0
    assert Experiment.from_dict(made.to_dict()) == made
    for policy in policies:
        assert np.all(np.isfinite(simulate(policy, made.world(), n_seeds=2).regret))


def test_wrong_tables_are_refused() -> None:
    base = {**FILE, "algorithm": [{"name": "GLM-JDP", "epsilon": 1.0, "delta": 1e-3, "stepz": 3}]}
    with pytest.raises(InvalidArgument, match="stepz"):
        Experiment.from_dict(base)
    for wrong in ({"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-3, "constants": "large"}):
        with pytest.raises(BandannaError):
            Experiment.from_dict({**FILE, "algorithm": [{"name": "GLM-JDP", **wrong}]})
