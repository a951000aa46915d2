"""A running sum of a stream of users' values, released after every user or full batch, in any trust model."""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.accounting.guarantee import Guarantee
from bandanna.core import require
from bandanna.core.domain import Box, Domain
from bandanna.counters.models import open_protocol
from bandanna.counters.values import Values
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.mechanisms.base import noise_source
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import BatchProtocol, StreamProtocol, checked_path
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.trust import Privacy

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class _SoFar:
    """After `users` updates: the released sum, (dim,), and the state of a stream protocol, which is never published."""

    users: int
    total: Floats
    state: Any


@dataclass(kw_only=True, eq=False)
class ContinualSum:
    """Private running sums over at most `horizon` users, one value each.

    horizon  how many users there may be
    privacy  `bd.none()`, `bd.central(...)` ("blt", "honaker", "tree"), `bd.local(...)`, `bd.shuffle(...)` (one shuffler
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

    def __post_init__(self) -> None:
        self.horizon = require.whole("horizon", self.horizon)
        if not isinstance(self.privacy, Privacy):
            raise InvalidArgument("privacy", self.privacy, "bd.none(), central(), local(), shuffle() or concurrent()")
        if not isinstance(self.values, Domain):
            raise InvalidArgument("values", self.values, "bd.Bits(), a bd.Box, a bd.Ball or a bd.SymmetricMatrix")
        nothing = np.zeros(self.values.dim)
        state = self.protocol.begin() if isinstance(self.protocol, StreamProtocol) else None
        self._so_far = _SoFar(users=0, total=nothing, state=state)

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
        return self._so_far.users

    @property
    def estimate(self) -> Any:
        """The released running sum after the last `update`."""
        return self._kind.shaped(self._so_far.total)

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

    def update(self, value: ArrayLike) -> Any:
        """One more user: the estimate of the running sum. A refused value leaves everything as it was.

        Threads take their turns, and a forked process has none: two steps from one state would be two releases of the
        same users. After an interrupt `users` says whether the value was counted; nobody has seen what was not.
        """
        if os.getpid() != self._pid:  # where the lock may be held by a thread that does not exist
            raise BandannaError("a counter lives in the process that made it: begin another one in this one")
        with self._alone:
            return self._update(value)

    def _update(self, value: ArrayLike) -> Any:
        source, before = noise_source(self.source), self._so_far
        if before.users >= self.horizon:
            raise InvalidArgument("updates", before.users + 1, f"at most the horizon {self.horizon}")
        statistic = self._kind.one(value)
        if isinstance(self.protocol, StreamProtocol):
            state, released = self.protocol.release(before.state, statistic, source)
            total = released.total
        else:
            state, total = None, before.total + self.protocol.release(statistic, source).total
        self._so_far = _SoFar(users=before.users + 1, total=total, state=state)  # at once: an interrupt splits nothing
        return self._kind.shaped(total)

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
        messages = self.protocol.randomize(statistic, source)[..., None, :]  # each user by himself: nothing to shorten
        each = self.protocol.analyze(messages, source).total
        return np.asarray(self._kind.shaped(np.cumsum(each, axis=-2)))

    @property
    def _kind(self) -> Values:
        return Values(domain=self.values)
