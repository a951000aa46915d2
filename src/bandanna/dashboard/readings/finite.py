"""Arms without features: sums of rewards for each, released, of arms that were assigned and so are public."""

from __future__ import annotations

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.dashboard.readings.base import Band, Mean, Named, Notes, Reader, Reading, regret_of, two
from bandanna.policies.arms.finite import FiniteArmed
from bandanna.policies.arms.ldp_ucb import LDPUCB
from bandanna.policies.arms.thompson import Thompson
from bandanna.policies.arms.ucb1 import EveryRound
from bandanna.policies.arms.ucb_episodes import UCBEpisodes
from bandanna.protocols.base import BatchProtocol
from bandanna.tasks.document import Task
from bandanna.tasks.published import Published

_REGRET = (
    "An estimate: users times the mean of the arm that looks best now, less the sum of rewards. The band adds the noise"
    " of both and the chance of rewards themselves."
)
_MEANS = "Mean reward of each arm as it is released, and two standard deviations: of noise, and of rewards themselves."
_PLAYS = "Arms are assigned, so these numbers are public and exact."


class _Arms(Reader):
    """What both have."""

    def means(self, values: Floats, variances: Floats) -> Mean:
        """With the largest variance that rewards of this range can have."""
        width = getattr(self.task.policy, "domain").width  # noqa: B009
        return Mean(values=values, halves=two(variances), chance=width / 2)

    def listed(self, values: Floats, halves: Floats) -> tuple[Named, ...]:
        """By arms; without those of which nothing is known."""
        return tuple(
            Named(name=name, band=Band(value=float(value), half=float(half)))
            for name, value, half in zip(self.arms, values, halves, strict=False)
            if np.isfinite(value)
        )


class TalliesReader(_Arms):
    """Policies that learn from single users: sums and pulls of every arm."""

    def __init__(self, task: Task, policy: FiniteArmed[object]) -> None:
        super().__init__(task)
        self._policy = policy
        self._bits = isinstance(policy, LDPUCB | Thompson)  # sums are of rewards as bits
        protocol = policy.ask.protocol if isinstance(policy, EveryRound) else None
        width = policy.domain.width if self._bits else 1.0
        self._std = width * protocol.std(1) if isinstance(protocol, BatchProtocol) else 0.0
        self.notes = Notes(reward="Sum of what was released of every arm.", regret=_REGRET, theta=_MEANS, plays=_PLAYS)

    def read(self, said: Published, before: tuple[Published, Reading] | None) -> Reading:
        """From the state alone."""
        state, domain = said.state, self._policy.domain
        pulls = np.asarray(state.pulls, dtype=float)
        sums = pulls * domain.low + domain.width * state.sums if self._bits else np.asarray(state.sums)
        users, played = int(state.rounds), np.maximum(pulls, 1.0)
        reward = Band(value=float(np.sum(sums)), half=float(two(self._std**2 * np.sum(pulls))))
        spread = (self._std**2 + domain.width**2 / 4) / played
        means = self.means(np.where(pulls > 0, sums / played, np.nan), spread)
        return Reading(
            users=users,
            reward=reward,
            regret=regret_of(users, reward, means),
            theta=self.listed(means.values, means.halves),
            plays=self.listed(pulls, np.zeros_like(pulls)),
        )


class EpisodesReader(_Arms):
    """Policies that forget: a state has every arm's last episode, and the sum of all is added up on the way."""

    def __init__(self, task: Task, policy: UCBEpisodes) -> None:
        super().__init__(task)
        self._policy = policy
        reward = "Sums of all episodes as they were released, added up."
        self.notes = Notes(reward=reward, regret=_REGRET, theta=_MEANS, plays=_PLAYS)

    def read(self, said: Published, before: tuple[Published, Reading] | None) -> Reading:
        """The state, and the sum of before."""
        state, width = said.state, self._policy.domain.width
        lengths = np.asarray(state.lengths)
        shown = np.maximum(lengths, 1)
        noise = np.array([self._policy.protocol.std(int(each)) for each in shown]) / shown
        means = self.means(np.where(lengths > 0, state.estimates, np.nan), noise**2 + width**2 / 4 / shown)
        users, reward = int(state.rounds), self._reward(said, before)
        return Reading(
            users=users,
            reward=reward,
            regret=None if reward is None else regret_of(users, reward, means),
            theta=self.listed(means.values, means.halves),
            plays=self.listed(np.asarray(state.pulls, dtype=float), np.zeros(len(shown))),
        )

    def _reward(self, said: Published, before: tuple[Published, Reading] | None) -> Band | None:
        """With the episode that has ended since, if one has."""
        if said.number == 0:
            return Band(value=0.0, half=0.0)
        if before is None or before[0].number != said.number - 1 or before[1].reward is None:
            return None
        earlier, known = before[0].state, before[1].reward
        state = said.state
        plays = np.asarray(state.pulls) - np.asarray(earlier.pulls)
        own = float(np.sum(np.where(plays > 0, state.estimates * plays, 0.0)))
        variance = sum(self._policy.protocol.std(int(each)) ** 2 for each in plays if each > 0)
        half = float(np.hypot(known.half or 0.0, two(variance)))
        return Band(value=known.value + own, half=half)
