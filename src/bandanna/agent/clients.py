"""Clients: people who answer for all rounds of an episode, as many as it asks for; who comes first takes part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna.agent.plan import Batch
from bandanna.core.arrays import Floats
from bandanna.errors import InvalidArgument
from bandanna.policies.base import Assigned, Played


@dataclass(kw_only=True)
class Client:
    """Sums and numbers of the rewards of every arm of the episode, and the rounds that they are of."""

    session: str
    user: str | None
    sums: Floats  # (k,)
    counts: Floats  # (k,)
    rounds: set[int]


class Clients:
    """The clients of the running episode, by their numbers: `episode` and the place in it."""

    def __init__(self) -> None:
        self.episode = 0
        self._clients: list[Client] = []

    def __len__(self) -> int:
        return len(self._clients)

    def begin(self, episode: int) -> None:
        """Those of an earlier episode are asked no more."""
        if episode != self.episode:
            self.episode, self._clients = episode, []

    def users(self) -> set[str]:
        """The hashed users among them."""
        return {client.user for client in self._clients if client.user is not None}

    def join(self, arms: int, session: str, user: str | None) -> int:
        """One more; its place."""
        client = Client(session=session, user=user, sums=np.zeros(arms), counts=np.zeros(arms), rounds=set())
        self._clients.append(client)
        return len(self._clients) - 1

    def answer(self, place: int, session: str, round_: int, arm: int, reward: float) -> bool:
        """A client's reward of one round, once; `arm` is a place among the arms of the episode."""
        if place >= len(self._clients) or self._clients[place].session != session:
            return False
        client = self._clients[place]
        if round_ in client.rounds:
            raise InvalidArgument(
                "decision id", f"round {round_}", "one without this client's reward; the first stands"
            )
        client.rounds.add(round_)
        client.sums[arm] += reward
        client.counts[arm] += 1
        return True

    def played(self, batch: Batch) -> tuple[Played, int]:
        """Averages of all arms, (clients, k), 0 where a client has none; and how many clients have not answered."""
        assert isinstance(batch.episode, Assigned)
        assert batch.clients is not None
        averages = np.zeros((batch.clients, len(batch.episode.arms)))
        for row, client in enumerate(self._clients):
            averages[row] = client.sums / np.maximum(client.counts, 1.0)
        answered = sum(bool(client.rounds) for client in self._clients)
        return Played(rewards=averages), batch.clients - answered

    def members(self, batch: Batch) -> list[str]:
        """The hashed users, and the others together."""
        named = sorted(self.users())
        others = (batch.clients or 0) - len(named)
        return named + [f"{others} clients of episode {batch.number}"] * bool(others)

    def to_columns(self) -> dict[str, Any]:
        """Everything, as arrays and lists."""
        return {
            "episode": self.episode,
            "sums": [client.sums for client in self._clients],
            "counts": [client.counts for client in self._clients],
            "rounds": [sorted(client.rounds) for client in self._clients],
            "sessions": [client.session for client in self._clients],
            "users": [client.user for client in self._clients],
        }

    @classmethod
    def from_columns(cls, columns: dict[str, Any]) -> Clients:
        """The inverse of `to_columns`."""
        made = cls()
        made.episode = columns["episode"]
        names = "sums", "counts", "rounds", "sessions", "users"
        for sums, counts, rounds, session, user in zip(*(columns[name] for name in names), strict=True):
            made._clients.append(Client(session=session, user=user, sums=sums, counts=counts, rounds=set(rounds)))
        return made
