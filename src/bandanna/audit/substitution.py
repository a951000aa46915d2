"""Rows of some people replaced: the simulator's player, in whose world they stand instead of those people's own."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bandanna.core.arrays import Floats, Ints
from bandanna.policies.base import Assigned, Played
from bandanna.simulation.players.plain import Seed


@dataclass(frozen=True, kw_only=True, eq=False)
class Substitution:
    """Rows that stand where some people's own rows would be, by the rounds in which these people come, in order.

    private  whether contexts are; public ones are the same in both worlds
    """

    rounds: Ints  # (n,)
    rewards: Floats  # (n,); of a client, its average of every arm
    features: Floats | None = None  # (n, d)
    private: bool

    @classmethod
    def of_row(cls, row: Played, *, at: int, private: bool) -> Substitution:
        """One person's row in a round."""
        reward = row.rewards.reshape(1, -1)[:, 0]
        return cls(rounds=np.array([at]), rewards=reward, features=row.features, private=private)

    def first(self, count: int) -> Substitution:
        """Of the first so many people alone."""
        return self.only(slice(0, count))

    def only(self, people: slice) -> Substitution:
        """Of some of the people alone."""
        features = None if self.features is None else self.features[people]
        return replace(self, rounds=self.rounds[people], rewards=self.rewards[people], features=features)

    def over(self, base: Substitution) -> Substitution:
        """These rows, and those of the base for everybody else; of both, rewards alone."""
        rest = ~np.isin(base.rounds, self.rounds)
        rounds = np.concatenate([self.rounds, base.rounds[rest]])
        rewards, order = np.concatenate([self.rewards, base.rewards[rest]]), np.argsort(rounds)
        return replace(base, rounds=rounds[order], rewards=rewards[order])

    def within(self, begin: int, users: int) -> tuple[Ints, Substitution]:
        """Places among so many people who come from a round on, and their rows."""
        start, stop = np.searchsorted(self.rounds, [begin, begin + users])
        return self.rounds[start:stop] - begin, self.only(slice(int(start), int(stop)))


class Player(Seed):
    """One seed of the simulator, with canaries in it."""

    canaries: Substitution | None = None

    def _here(self, users: int) -> tuple[Ints, Substitution] | None:
        """The canaries among the next users, if any."""
        found = None if self.canaries is None else self.canaries.within(self.done, users)
        return found if found is not None and len(found[0]) else None

    def _look(self, users: int) -> tuple[Floats, Floats]:
        contexts, means = super()._look(users)
        if (mine := self._here(users)) and mine[1].private and mine[1].features is not None:
            contexts = np.array(contexts)
            contexts[mine[0]] = mine[1].features[:, None]  # all arms of a person
        return contexts, means

    def _earn(self, means: Floats, arms: Ints) -> Floats:
        mine = self._here(len(arms))
        rewards = np.array(super()._earn(means, arms))
        if mine:
            rewards[mine[0]] = mine[1].rewards
        return rewards

    def frozen(self, users: int) -> Played:
        """Devices choose; public features are those of the canaries in both worlds."""
        mine, played = self._here(users), super().frozen(users)
        return _placed(mine, played) if mine else played

    def assigned(self, episode: Assigned, users: int) -> Played:
        """The server says what is played; a client's averages are the canary's."""
        mine, played = self._here(users), super().assigned(episode, users)
        if not mine or not len(played.rewards):
            return played
        if played.rewards.ndim == 2:
            rewards, clients = np.array(played.rewards), mine[0] < len(played.rewards)
            rewards[mine[0][clients]] = mine[1].rewards[clients, None]
            return Played(rewards=rewards)
        return _placed(mine, played)


def _placed(mine: tuple[Ints, Substitution], played: Played) -> Played:
    """Rows with the canaries' features, where they are public."""
    places, rows = mine
    if rows.private or rows.features is None or played.features is None:
        return played
    features = np.array(played.features)
    features[places] = rows.features
    return replace(played, features=features)
