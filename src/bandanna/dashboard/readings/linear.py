"""LinTS and LinUCB: the released running sums (x y, x x^T), their noise, and what follows from them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.intercept import InterceptReport
from bandanna.core.per_arm import PerArmReport
from bandanna.dashboard.readings.base import Band, Mean, Named, Notes, Reader, Reading, regret_of, two
from bandanna.policies.linear.lints import LinTS, Posterior
from bandanna.policies.linear.linucb import LinUCB, Snapshot
from bandanna.tasks.document import Task
from bandanna.tasks.published import Published

_ARMS = 200  # of which plays are solved for
_NEAR = 1e-9


class LinearReader(Reader):
    """The sum of rewards is in a report that has a constant, or whose arms, which stay, have one in their span."""

    def __init__(self, task: Task, policy: LinTS | LinUCB) -> None:
        super().__init__(task)
        self._policy = policy
        self._stds = np.append(0.0, policy.channel.prefix_std())
        self._centre = -float(policy.centred(np.zeros(1))[0][0])
        self.independent = policy.channel.independent
        stay = task.arms is not None and not task.arms.of_users and task.arms.features.shape[1] > 0
        self._rows = policy.domain.seen(task.arms.features) if stay and task.arms is not None else None  # (K, d)
        self._constant = constant_of(self._rows) if not self._own else None
        if isinstance(policy.domain, InterceptReport):
            self._constant = np.eye(policy.domain.features)[-1]
        self.notes = self._noted()

    @property
    def _own(self) -> bool:
        """Every arm has a parameter of its own."""
        return isinstance(self._policy.domain, PerArmReport)

    def _noted(self) -> Notes:
        missing = f"Who has not answered counts as {self._centre:g}."
        reward = "Not released: reports of this task hold x y and x x^T, of which the sum of rewards does not follow."
        if self._own:
            reward = "Sum over all arms, of those who answered, from the released sums."
        elif self._constant is not None:
            reward = f"From the released sums. {missing}"
        regret = "Not estimated: the best arm depends on each user's context, which nobody but the device sees."
        if self._rows is not None and self._constant is None:
            regret = "Not estimated: it takes the sum of rewards."
        elif self._rows is not None:
            regret = (
                "An estimate: users times the mean of the arm that looks best now, less the sum of rewards. The band"
                f" adds the noise of both and the chance of rewards themselves. {missing}"
            )
        return Notes(
            reward=reward,
            regret=regret,
            theta=self._theta_noted(),
            plays="Estimated from released sums, and two standard deviations of their noise.",
        )

    def _theta_noted(self) -> str:
        policy = self._policy
        if isinstance(policy, LinTS):
            return "Mean of the posterior, and two of its standard deviations: it knows the noise." * (policy.alpha > 0)
        sure = f"{100 * (1 - policy.failure):g} %"
        return f"The estimate, and how far the confidence set reaches that holds theta with probability {sure}."

    def read(self, said: Published, before: tuple[Published, Reading] | None) -> Reading:
        """From the state alone."""
        state = said.state
        users = int(self._policy.channel.sizes.before(state.batches))
        variance = float(self._stds[state.batches]) ** 2
        vector, matrix = self._policy.domain.sums(state.total, users)
        reward = self._reward(vector, matrix, users, variance)
        halves = self._halves(said.snapshot)
        regret = None
        if reward is not None and self._rows is not None:
            regret = regret_of(users, reward, self._means(said.snapshot))
        return Reading(
            users=users,
            reward=reward,
            regret=regret,
            theta=self.named(self._policy.theta(said.snapshot), halves),
            plays=self._plays(matrix, variance),
        )

    def _reward(self, vector: Floats, matrix: Floats, users: int, variance: float) -> Band | None:
        noise, counts = self._policy.domain.variances
        if self._own:
            value = float(np.sum(vector[:, -1] + self._centre * matrix[:, -1, -1]))
            spread = len(vector) * (noise[-1] + self._centre**2 * counts[-1, -1])
        elif self._constant is not None:
            value = float(self._constant @ vector) + self._centre * users
            spread = self._constant**2 @ noise
        else:
            return None
        return Band(value=value, half=float(two(variance * spread)))

    def _root(self, snapshot: Any) -> Floats | None:
        """M with M M^T the square of how far theta may be off, (..., d, d)."""
        if isinstance(snapshot, Posterior):
            alpha = self._policy.alpha if isinstance(self._policy, LinTS) else 0.0
            return 2 * snapshot.root / alpha if alpha > 0 else None
        if isinstance(snapshot, Snapshot) and isinstance(self._policy, LinUCB) and self._policy.width > 0:
            values, vectors = np.linalg.eigh(snapshot.inverse)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            return np.asarray(root * (snapshot.radius / self._policy.width))
        return None

    def _halves(self, snapshot: Any) -> Floats | None:
        root = self._root(snapshot)
        return None if root is None else np.asarray(np.sqrt(np.sum(root**2, axis=-1)))

    def _means(self, snapshot: Any) -> Mean:
        assert self._rows is not None
        root = self._root(snapshot)
        wide = np.full(len(self._rows), np.nan) if root is None else np.linalg.norm(self._rows @ root, axis=-1)
        values = self._rows @ snapshot.theta + self._centre
        return Mean(values=values, halves=wide, chance=float(getattr(self._policy, "reward_std", 0.5)))

    def features(self, count: int) -> list[str]:
        """With the constant, and for every arm where each has its own."""
        arms = len(self.arms) if self._own else 1
        each = count // max(arms, 1)
        known = super().features(each - 1) if self._own else super().features(each)
        names = [*known, "constant"] if self._own else known
        if isinstance(self._policy.domain, InterceptReport):
            names = [*names[:-1], "constant" if names[-1].startswith("feature ") else names[-1]]
        if not self._own:
            return names
        return [f"{arm}: {name}" for arm in self.arms for name in names][:count]

    def _plays(self, matrix: Floats, variance: float) -> tuple[Named, ...]:
        _, noise = self._policy.domain.variances
        if self._own:
            values, spreads = matrix[:, -1, -1], np.full(len(matrix), noise[-1, -1])
        elif self._solved is not None:
            solve, unit = self._solved
            upper = np.triu_indices(len(matrix))
            values, spreads = solve @ matrix[upper], unit
        else:
            return ()
        halves = two(variance * spreads)
        return tuple(
            Named(name=name, band=Band(value=float(value), half=float(half)))
            for name, value, half in zip(self.arms, values, halves, strict=False)
        )

    @cached_property
    def _solved(self) -> tuple[Floats, Floats] | None:
        """What makes counts of arms out of sum x x^T, where these say it: (K, entries); and the counts' variances."""
        rows = self._rows
        if rows is None or len(rows) > _ARMS:
            return None
        _, noise = self._policy.domain.variances
        upper = np.triu_indices(rows.shape[1])
        squares = (rows[:, :, None] * rows[:, None, :])[:, upper[0], upper[1]].T  # (entries, K)
        spread = noise[upper]
        sure = np.maximum(spread, _NEAR * spread.max())  # the number of users has no noise
        design = squares / np.sqrt(sure)[:, None]
        if np.linalg.matrix_rank(design, tol=1e-6 * np.linalg.norm(design, 2)) < len(rows):
            return None
        solve = np.linalg.pinv(design) / np.sqrt(sure)
        return solve, np.asarray(solve**2 @ spread)


def constant_of(rows: Floats | None) -> Floats | None:
    """w with <w, x> = 1 for every arm, (K, d) -> (d,), where there is one."""
    if rows is None:
        return None
    found: Floats = np.asarray(np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0], dtype=np.float64)
    return found if np.max(np.abs(rows @ found - 1)) < _NEAR else None
