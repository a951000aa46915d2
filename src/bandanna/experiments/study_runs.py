"""One row of a study: an algorithm plays a data set, at one epsilon or without privacy."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.streams import Streams
from bandanna.datasets.dataset import DataSet
from bandanna.errors import InvalidArgument
from bandanna.experiments import peers
from bandanna.experiments.study_settings import Setting
from bandanna.logs.log import Log
from bandanna.logs.replaying import replay
from bandanna.policies.base import Policy
from bandanna.policies.linear.lints import LinTS
from bandanna.policies.linear.linucb import LinUCB
from bandanna.protocols.trust import Privacy, central, concurrent, local, none, shuffle
from bandanna.simulation.engine import simulate

OURS = ("LinTS", "LinTS-users", "LinTS-arms", "LinUCB")
FIXED = ("best arm", "random")
_WIDTH = 0.2  # of LinUCB, as its documentation has it


@dataclass(frozen=True, kw_only=True)
class Job:
    """One row to be."""

    algorithm: str
    trust: str = "none"
    epsilon: float | None = None

    @property
    def label(self) -> str:
        """For a progress bar."""
        return self.algorithm if self.epsilon is None else f"{self.algorithm}, {self.trust}, epsilon {self.epsilon:g}"


def known_of(data: DataSet, job: Job) -> dict[str, Any]:
    """What is known without playing: always the best arm, or any."""
    means = data.means
    return {"rewards": np.array([means.max() if job.algorithm == "best arm" else means.mean()]), "accepted": None}


def measured(data: DataSet, setting: Setting, job: Job, delta: float) -> dict[str, Any]:
    """Mean rewards, one for each seed, and what a row should tell of the runs."""
    if job.algorithm in peers.PEERS:
        return {"rewards": _of_peer(data, setting, job.algorithm), "accepted": None}
    policy, contexts = _policy(data, setting, job, delta)
    stated = policy.guarantee
    promised = {
        "stated_epsilon": stated.epsilon if math.isfinite(stated.epsilon) else None,
        "stated_delta": stated.delta if math.isfinite(stated.epsilon) else None,
    }
    if data.given is not None:
        log = _kron_log(data) if job.algorithm == "LinUCB" else data.log(contexts=contexts)
        played = replay(policy, log, n_seeds=setting.seeds)
        return {
            "rewards": played.means,
            "accepted": float(played.weight.mean()),
            "releases": played.releases,
            **promised,
        }
    table = data.table(contexts=contexts)
    if job.algorithm == "LinUCB":
        table = replace(table, features=_kron(data))
    result = simulate(policy, table, n_seeds=setting.seeds, checkpoints=1)
    return {"rewards": result.rewards / setting.horizon, "accepted": None, "releases": result.releases, **promised}


def _policy(data: DataSet, setting: Setting, job: Job, delta: float) -> tuple[Policy[Any], str]:
    """A policy, and the contexts that it sees."""
    privacy, arms = _privacy(job, delta), len(data.arms)
    if job.algorithm == "LinUCB":
        dim = arms * (_slopes(data) + 1)
        batch = setting.horizon // 20
        return LinUCB(dim=dim, horizon=setting.horizon, width=_WIDTH, privacy=privacy, batch=batch), "users"
    model = {"LinTS-users": "users", "LinTS-arms": "arms"}.get(job.algorithm, setting.model)
    sizes = setting.batch if job.trust != "concurrent" and model == setting.model else "auto"
    shared: dict[str, Any] = {"horizon": setting.horizon, "privacy": privacy, "alpha": setting.alpha, "batch": sizes}
    if model == "arms":
        return LinTS(dim=arms, intercept=True, **shared), model
    if not _slopes(data) or _slopes(data) != data.dim:
        raise InvalidArgument(
            "algorithms", job.algorithm, "LinTS-arms, or data with a map of features without Intercept()"
        )
    return LinTS(n_arms=arms, features=data.dim, **shared), model


def _privacy(job: Job, delta: float) -> Privacy:
    if job.epsilon is None:
        return none()
    trust = {"central": central, "shuffle": shuffle, "local": local, "concurrent": concurrent}[job.trust]
    return trust(epsilon=job.epsilon, delta=delta)  # type: ignore[operator, no-any-return]


def _kron(data: DataSet) -> Floats:
    """np.kron(arm, features): what a policy without models for each arm is given, (n, K, K (d + 1))."""
    users = with_constant(data)
    n, d = users.shape
    arms = len(data.arms)
    wide = np.zeros((n, arms, arms, d))
    wide[:, np.arange(arms), np.arange(arms)] = users[:, None]
    return wide.reshape(n, arms, arms * d)


def _kron_log(data: DataSet) -> Log:
    return replace(data.log(), contexts=_kron(data))


def with_constant(data: DataSet) -> Floats:
    """(z, 1)/sqrt 2: features of users in the unit ball, (n, d + 1)."""
    z = data.contexts[:, : _slopes(data)]
    return np.column_stack([z, np.ones(len(z))]) / math.sqrt(2)


def _slopes(data: DataSet) -> int:
    """Features of users, without a constant."""
    return 0 if data.features is None else data.features.slopes


def _of_peer(data: DataSet, setting: Setting, name: str) -> Floats:
    """Mean rewards, one for each seed."""
    run = _replayed if data.given is not None else _drawn
    users = with_constant(data)
    return np.array([run(data, users, setting, name, seed) for seed in range(setting.seeds)])


def _replayed(data: DataSet, users: Floats, setting: Setting, name: str, seed: int) -> float:
    """The order and the acceptance of `bd.replay`."""
    log, streams, peer = data.log(), Streams([seed]), peers.begin(name, len(data.arms), seed)
    order = streams.generators("order")[0].permutation(len(log))[: setting.horizon]
    floor = log.propensities.min() if log.floor is None else log.floor
    keeping = streams.uniform("acceptance", (len(order),))[0] * log.propensities[order] < floor * (1 + 1e-9)
    known, every = log.scaled_rewards(), 1 if peer.online else setting.every
    total, count = 0.0, 0
    for begin in range(0, len(order), every):
        some = order[begin : begin + every]
        arms, chances = peer.act(users[some])
        taken = (arms == log.arms[some]) & keeping[begin : begin + every]
        rewards = known[some][taken]
        peer.learn(users[some][taken], arms[taken], rewards, chances[taken])
        total, count = total + float(rewards.sum()), count + len(rewards)
    return total / count if count else math.nan


def _drawn(data: DataSet, users: Floats, setting: Setting, name: str, seed: int) -> float:
    """The people of `bd.environments.Table`."""
    world = data.table().begin(Streams([seed]))
    peer, total = peers.begin(name, len(data.arms), seed), 0.0
    every = 1 if peer.online else setting.every
    for begin in range(0, setting.horizon, every):
        world.contexts(begin, min(every, setting.horizon - begin))
        some = world.now[0]
        arms, chances = peer.act(users[some])
        rewards = data.rewards[some, arms]
        peer.learn(users[some], arms, rewards, chances)
        total += float(rewards.sum())
    return total / setting.horizon
