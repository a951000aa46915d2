"""A running sum of a stream of users' values, released after every user or full batch, in any trust model."""

from __future__ import annotations

import math
import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.arrays import Floats
from bandanna.core.domain import Box, Domain, Statistic
from bandanna.counters.models import open_protocol
from bandanna.counters.people import People
from bandanna.counters.saving import Kept, generator_of, read, source_of
from bandanna.counters.values import Values
from bandanna.device.noise import noise_source
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import BatchProtocol, StreamProtocol, checked_path
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.trust import Privacy


@dataclass(frozen=True, kw_only=True, eq=False)
class _SoFar:
    """After `users` updates: the released sum, (dim,), and the state of a stream protocol, which is never published.

    `source` is where seeded noise was then, if the counter is kept on disk.
    """

    users: int
    total: Floats
    state: Any
    source: Any = None

    def note(self) -> dict[str, Any]:
        """What saves and journals hold of it."""
        return {"users": self.users, "total": self.total, "state": self.state, "source": self.source}


@dataclass(kw_only=True, eq=False)
class ContinualSum:
    """Private running sums over at most `horizon` users, one value each.

    horizon  how many users there may be
    privacy  `bd.none()`, `bd.central(...)` ("blt", "tree"), `bd.local(...)`, `bd.shuffle(...)` (one shuffler
             at a time), `bd.concurrent(..., shufflers=k)`
    values   what is summed: `bd.Bits()`, numbers in [0, 1] (`bd.Box(dim=1)`, the default), vectors in a `bd.Box` or
             `bd.Ball`, matrices in a `bd.SymmetricMatrix`
    source   where noise comes from: `bd.SecureNoise()` for people, `bd.FastNoise(rng)` for simulation

    `update(value)` counts one more user; `run(values)` computes all estimates of whole streams, any number side by
    side. A value outside of its domain is refused, and nothing changes. Numbers in and out have the shape of one value:
    () for bits and numbers, (dim,) for vectors, (size, size) for matrices.

    Error: `predicted_std` is that of the worst prefix, per number (off the diagonal of a matrix 1/sqrt 2 of it); in the
    shuffle models the last users, at most `delay`, are not yet in the estimate.
    """

    horizon: int
    privacy: Privacy
    values: Domain = Box(dim=1)
    source: NoiseSource | None = None
    _so_far: _SoFar = field(init=False, repr=False)
    _pid: int = field(init=False, repr=False, default_factory=os.getpid)
    _alone: threading.RLock = field(init=False, repr=False, default_factory=threading.RLock)
    _secret: bytes = field(init=False, repr=False, default_factory=lambda: secrets.token_bytes(32))
    _people: People = field(init=False, repr=False)
    _kept: Kept | None = field(init=False, repr=False, default=None)  # from the first save on
    _settled: bool = field(init=False, repr=False, default=True)

    def __post_init__(self) -> None:
        self.horizon = require.whole("horizon", self.horizon)
        if not isinstance(self.privacy, Privacy):
            raise InvalidArgument("privacy", self.privacy, "bd.none(), central(), local(), shuffle() or concurrent()")
        if not isinstance(self.values, Domain):
            raise InvalidArgument("values", self.values, "bd.Bits(), a bd.Box, a bd.Ball or a bd.SymmetricMatrix")
        self.privacy.warn_if_delta_exceeds(self.horizon)
        nothing = np.zeros(self.values.dim)
        state = self.protocol.begin() if isinstance(self.protocol, StreamProtocol) else None
        self._so_far = _SoFar(users=0, total=nothing, state=state)
        self._people = People(self._secret, self.privacy.participations)

    @cached_property
    def protocol(self) -> StreamProtocol | BatchProtocol:
        """The calibrated protocol: of the whole stream, or (local, none) of every user by himself."""
        return open_protocol(self.privacy, self.values, self.horizon)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, to whom, against whom."""
        return replace(self.protocol.guarantee, protects=f"a user's {self._kind.noun}")

    @property
    def predicted_std(self) -> float:
        """Standard deviation of the noise in the worst prefix, per packed coordinate."""
        if isinstance(self.protocol, CentralContinual | ConcurrentShuffle):
            return self.protocol.std()
        assert isinstance(self.protocol, BatchProtocol)
        return self.protocol.std(1) * math.sqrt(self.horizon)

    @property
    def delay(self) -> int:
        """Most users who have arrived and are not yet in the estimate."""
        return self.protocol.delay if isinstance(self.protocol, ConcurrentShuffle) else 0

    @property
    def predicted_error(self) -> float:
        """`predicted_std` + `delay` times the largest value: what degrees="best" makes least."""
        return self.predicted_std + self.delay * self.values.bound_of_entries

    @property
    def users(self) -> int:
        """How many users have been counted by `update`."""
        return self._latest.users

    @property
    def estimate(self) -> Any:
        """The released running sum after the last `update`."""
        return self._kind.shaped(self._latest.total)

    @property
    def _latest(self) -> _SoFar:
        if not self._settled:
            with self._mine():
                pass
        return self._so_far

    def __str__(self) -> str:
        """The guarantee, the predicted error and the delay."""
        waiting = f"the last users, at most {self.delay}, are not yet in it" if self.delay else "all users are in it"
        return (
            f"{self.guarantee} The worst of {self.horizon} running sums has noise of standard deviation "
            f"{self.predicted_std:.4g}; {waiting}."
        )

    def __repr__(self) -> str:
        """How many users it has counted, and how."""
        told = f"{self.users} of {self.horizon} users counted, each with a {self._kind.noun}"
        return f"<ContinualSum: {told}, privacy {self.privacy.model}>"

    def update(self, value: ArrayLike, user: str | int | None = None) -> Any:
        """One more user: the estimate of the running sum. A refused value leaves everything as it was.

        `user`, for all updates or for none, is whose value it is: nobody is counted more often than `participations`.
        Threads take their turns, and a forked process has none: two steps from one state would be two releases of the
        same users. After an interrupt `users` says whether the value was counted; nobody has seen what was not.
        """
        with self._mine():
            return self._update(value, user)

    @contextmanager
    def _mine(self) -> Iterator[None]:
        """One thread at a time, in the process that made the counter, from where an interrupted call has left it."""
        if os.getpid() != self._pid:  # where the lock may be held by a thread that does not exist
            raise BandannaError("a counter lives in the process that made it: load or begin another one in this one")
        with self._alone:
            self._settle()
            yield

    def _update(self, value: ArrayLike, user: str | int | None) -> Any:
        source, before = noise_source(self.source), self._so_far
        if before.users >= self.horizon:
            raise InvalidArgument("updates", before.users + 1, f"at most the horizon {self.horizon}")
        statistic = self._kind.one(value)
        self._settled = False
        person = self._people.admit(user, before.users)
        if self._kept is None:
            after = self._after(before, statistic, source)
        else:
            kept = self._kept.release(
                before.users, statistic, person, lambda: self._after(before, statistic, source).note()
            )
            after = _SoFar(**kept)
        self._so_far = after  # at once: an interrupt splits nothing
        self._settled = True
        return self._kind.shaped(after.total)

    def _after(self, before: _SoFar, statistic: Statistic, source: NoiseSource) -> _SoFar:
        if isinstance(self.protocol, StreamProtocol):
            state, released = self.protocol.release(before.state, statistic, source)
            total = released.total
        else:
            state, total = None, before.total + self.protocol.release(statistic, source).total
        return _SoFar(users=before.users + 1, total=total, state=state, source=self._randomness())

    def _settle(self) -> None:
        """After a call that was interrupted, go on from what the journals say; else do nothing."""
        if self._settled:
            return
        if self._kept is not None:
            if self._kept.ledger is not None:
                self._kept.journals.settle()
                note = self._kept.journals.state()
                if note is not None and note["users"] > self._so_far.users:  # released, and not known here
                    self._so_far = _SoFar(**note)
            if (generator := generator_of(self.source)) is not None:
                generator.state = self._so_far.source  # nobody has seen what was drawn since
        self._people.forget_after(self._so_far.users)
        self._settled = True

    def _randomness(self) -> Any:
        """Where seeded noise is, if the counter is kept on disk."""
        generator = None if self._kept is None else generator_of(self.source)
        return None if generator is None else generator.state

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to `path`, whole or not at all, and from now on every update to `path`.journal first.

        Both files hold raw data and secrets, and are readable by their owner only.
        """
        with self._mine():
            file = require.path("path", path)
            generator_of(self.source)  # refused, if no file can hold it
            self._kept = self._kept or Kept.of(self, self._secret)
            self._so_far = replace(self._so_far, source=self._randomness())
            self._kept.write(file, self._people.order, self._so_far.note(), self.source)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> ContinualSum:
        """The counter that was saved at `path`, with every update since: they are taken from the journal."""
        kept, people, note, content = read(require.path("path", path))
        made = cls.__new__(cls)
        vars(made)["protocol"] = content["protocol"]  # as it was: a search elsewhere might find another
        source = source_of(content["seeded"])
        made.__init__(  # type: ignore[misc]
            horizon=content["horizon"], privacy=content["privacy"], values=content["values"], source=source
        )
        made._kept, made._secret, made._people, made._so_far = kept, kept.secret, people, _SoFar(**note)
        if (generator := generator_of(source)) is not None:
            generator.state = note["source"]
        return made

    def run(self, values: ArrayLike, *, path: str = "law") -> Floats:
        """Estimates after every user of whole streams, independent of `update`: (*R, users, *value) -> the same shape.

        Every call is a release of its own, and so is every stream: the guarantee holds for people who are in one only.
        R are streams side by side. path="law" draws batches from their law and is for simulation; path="messages"
        runs every message, as a secure source must.
        """
        source = noise_source(self.source)
        checked_path(path, source)
        statistic = self._kind.streams(values)
        if statistic.values.shape[-2] > self.horizon:
            raise InvalidArgument("users", statistic.values.shape[-2], f"at most the horizon {self.horizon}")
        if isinstance(self.protocol, StreamProtocol):
            return np.asarray(self._kind.shaped(self.protocol.prefixes(statistic, source, path=path)))
        messages = self.protocol.device.message(statistic, source)[..., None, :]  # each user alone: nothing to shorten
        each = self.protocol.of_messages(messages, source).total
        return np.asarray(self._kind.shaped(np.cumsum(each, axis=-2)))

    @property
    def _kind(self) -> Values:
        return Values(domain=self.values)
