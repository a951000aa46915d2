"""`audit_task`: audit a running deployment of a test task by canaries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.audit.comparison import list_arrays
from bandanna.audit.releases import find_farthest_rows
from bandanna.audit.replay import protects_features
from bandanna.audit.sampled_bounds import Claim
from bandanna.audit.targets import CONFIDENCE, AuditResult, ProgressCallback, ignore_progress, make_guessing_row
from bandanna.deployment.client.load_simulation import Deployment, SimulatedUsers, world_for_task
from bandanna.deployment.client.policy_device import CurrentPublication
from bandanna.deployment.task.document import Task
from bandanna.device.domain import Estimate
from bandanna.errors import InvalidArgument
from bandanna.numeric.rng import GeneratorRandomness
from bandanna.policies.base import Episode, PlayedRounds, Policy, RunnerState, SumQuery, drive_learning
from bandanna.protocols.base import StreamProtocol
from bandanna.simulation.environments.base import Environment
from bandanna.types import Floats

CANARY_BATCHES = 200


def audit_task(
    task: Task,
    deployment: Deployment,
    *,
    env: Environment | None = None,
    batches: int = CANARY_BATCHES,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    progress: ProgressCallback = ignore_progress,
) -> AuditResult:
    """Send canaries through a running deployment of a test task, and try to refute its guarantee.

    Parameters
    ----------
    task : Task
        The test task.
    deployment : Deployment
        How clients reach it (`load_simulation.HttpDeployment`).
    env : Environment, optional
        The environment of the simulated users.
    batches : int
        The largest number of batches, with a canary in each; a task that ends ends the audit.
    confidence : float
        The probability with which a refutation is right.
    seed : int
        The seed of the users and the coins.
    progress : callable
        Called with the batches done, all batches, and a text.

    Returns
    -------
    AuditResult
        A row with the verdict and the lower bound.
    """
    if not task.content["test"]:
        raise InvalidArgument("task", task.id, "a task that is marked as a test", "Canaries spoil a real one")
    if task.policy.execution.retained_groups:
        hint = f"Audit {task.content['algorithm']!r} by its name"
        raise InvalidArgument("task", task.id, "a task whose policy keeps no rows", hint)
    stated = task.policy.guarantee
    crowd = CanaryUsers(
        task,
        deployment,
        env or world_for_task(task),
        batches=validation.integer("batches", batches),
        seed=validation.integer("seed", seed, least=0),
        progress=progress,
    )
    crowd.run()
    users = len(crowd.coins)
    if not users:
        raise InvalidArgument("task", task.id, "a task with a batch to come", "This one has released everything")
    row = make_guessing_row(
        Claim(epsilon=stated.epsilon, delta=stated.delta),
        crowd.right,
        users,
        target=f"task {task.content['title']}",
        confidence=confidence,
        trials=users,
        attack="live",
        looked_at=f"the first user of each of {users} batches, with one pair of rows each; publications alone",
        unseen="other users and rows",
    )
    return AuditResult(rows=(row,))


class CanaryUsers(SimulatedUsers):
    """Simulated users; every batch's first tosses a coin, and `right` of the `coins` are guessed."""

    def __init__(
        self,
        task: Task,
        deployment: Deployment,
        env: Environment,
        *,
        batches: int,
        seed: int,
        progress: ProgressCallback,
    ) -> None:
        rounds = task.policy.horizon or 10**9
        super().__init__(task, deployment, env, rounds=rounds, seed=seed, concurrency=4)
        self._tossing, self._batches = np.random.default_rng([seed, 1]), batches
        self._tell = progress
        self.coins: list[int] = []
        self.right = 0
        self._both: tuple[Floats, Floats] | None = None

    def choose_rows(self, view: CurrentPublication, rows: PlayedRounds) -> PlayedRounds:
        """Put a canary into the batch, and keep the noiseless publication under either coin."""
        policy, episode = self.task.policy, view.episode()
        assert episode is not None
        query = next(policy.learn(view.state, episode))
        pair = find_farthest_rows(policy, [query], rows.at(slice(0, 1)), private=protects_features(policy))
        lives = [_replace_first_row(rows, row) for row in pair]
        coin = int(self._tossing.integers(2))
        self.coins.append(coin)
        rng = np.random.default_rng(0)
        self._both = (
            _released_numbers(_learn_without_noise(policy, view.state, episode, lives[0], rng)),
            _released_numbers(_learn_without_noise(policy, view.state, episode, lives[1], rng)),
        )
        return lives[coin]

    def after(self, epoch: int) -> CurrentPublication:
        """Guess the coin from what is published after the batch."""
        view = super().after(epoch)
        assert self._both is not None
        none, one = self._both
        seen = _released_numbers(view.state)
        guess = int(np.sum((seen - (none + one) / 2) * (one - none)) >= 0)
        self.right += guess == self.coins[-1]
        self._tell(len(self.coins), self._batches, "batches")
        if len(self.coins) >= self._batches:
            self._rounds = self.seed.done  # no more of them
        return view


def _replace_first_row(rows: PlayedRounds, row: PlayedRounds) -> PlayedRounds:
    parts: dict[str, Any] = {}
    for name in ("rewards", "features", "arms", "groups"):
        whole, one = getattr(rows, name), getattr(row, name)
        if whole is not None and one is not None:
            parts[name] = np.concatenate([one, whole[1:]])
    return replace(rows, **parts)


def _learn_without_noise(
    policy: Policy[Any], state: Any, episode: Episode, rows: PlayedRounds, rng: np.random.Generator
) -> Any:
    """Return the state after this batch without noise; running sums continue the published one."""
    coins = GeneratorRandomness(lambda _: rng)

    def answer(query: SumQuery) -> Estimate:
        values = policy.report(query, RunnerState().rows(query, rows), coins).values
        total = values.sum(axis=-2)
        if isinstance(query.protocol, StreamProtocol):
            total = total + state.total
        return Estimate(total=total, count=values.shape[-2], variance=0.0)

    return drive_learning(policy.learn(state, episode), answer)


def _released_numbers(state: Any) -> Floats:
    """Return the released sum of a state, or else all its numbers."""
    held = [state.total] if hasattr(state, "total") else list(list_arrays(state))
    return np.concatenate([np.asarray(each, dtype=float).ravel() for each in held])
