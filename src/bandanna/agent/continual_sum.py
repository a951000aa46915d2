"""Private running sums of a stream outside of bandits."""

from __future__ import annotations

import math
import os
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna import validation
from bandanna.device.domain import (
    Ball,
    Bits,
    Box,
    Domain,
    Statistic,
    SymmetricMatrix,
    check_all_finite,
    read_real_array,
)
from bandanna.device.noise import FastNoise, NoiseSource, SecureNoise, check_noise_source
from bandanna.errors import BandannaError, BudgetExceeded, InvalidArgument, InvalidStatistic, ValueSummary
from bandanna.privacy.guarantee import Guarantee
from bandanna.privacy.ledger import Ledger, hash_user
from bandanna.privacy.stores.journal import ReplicatedJournal, find_journal_path, refuse_journal
from bandanna.protocols.base import BatchProtocol, StreamProtocol, check_path
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle
from bandanna.protocols.continual import CentralContinual
from bandanna.protocols.factory import PROTOCOLS, check_stream_state, list_local_protocols, local_protocol_for
from bandanna.protocols.privacy_model import Privacy
from bandanna.protocols.randomized_response import LocalBits
from bandanna.storage import files
from bandanna.storage.encoding import Encoding, check_readable, check_source, index_by_stored_name, is_hex, matches_type
from bandanna.storage.files import SaveFormat
from bandanna.types import Floats

# Calibration.


@lru_cache(maxsize=128)  # protocols are values: counters of the same kind share one
def calibrate_counter(privacy: Privacy, domain: Domain, horizon: int) -> StreamProtocol | BatchProtocol:
    """Return the protocol with the least noise for `horizon` users, one value each."""
    if privacy.budget is None or not privacy.noisy:
        return Clear(domain=domain)
    if privacy.model == "central":
        return CentralContinual.calibrate(
            domain=domain,
            budget=privacy.budget,
            horizon=horizon,
            mechanism=privacy.mechanism,
            participations=privacy.participations,
            calibration=privacy.calibration,
        )
    if privacy.model == "local" and isinstance(domain, Bits) and privacy.calibration == "tight":
        return LocalBits.calibrate(budget=privacy.budget, participations=privacy.participations)
    if privacy.model == "local":
        return local_protocol_for(privacy, domain)
    _check_privacy_model(privacy)
    return ConcurrentShuffle.calibrate(
        domain=domain,
        budget=privacy.budget,
        horizon=horizon,
        shufflers=privacy.shufflers,
        degrees=privacy.degrees,
        calibration=privacy.calibration,
        coins=privacy.noise,
    )


def _check_privacy_model(privacy: Privacy) -> None:
    """Refuse shuffle models that have no counter: shuffled Gaussians, and users who return."""
    if privacy.participations != 1:
        raise InvalidArgument("participations", privacy.participations, "1 for a counter")
    if privacy.model == "shuffle" and (privacy.protocol, privacy.calibration) != ("binomial", "tight"):
        given = (privacy.protocol, privacy.calibration)
        raise InvalidArgument("protocol, calibration", given, '("binomial", "tight") for a counter')


# Users.


class CounterUsers:
    """Count the participations of named users, by keyed hashes in the order of their updates."""

    def __init__(self, secret: bytes, participations: int, order: list[str] | None = None) -> None:
        self._secret, self._participations = secret, participations
        self.order = order or []
        self._counts = Counter(self.order)

    def forget_after(self, users: int) -> None:
        """Forget users admitted to an update that did not take place."""
        if len(self.order) > users:
            del self.order[users:]
            self._counts = Counter(self.order)

    def admit(self, user: Any, users: int) -> str | None:
        """Count an update by this user and return the hash, or refuse the user and count nothing."""
        if users and (user is None) == bool(self.order):
            given = "an id" if self.order else "None"
            raise InvalidArgument(
                "user", None if user is None else ValueSummary("an id"), f"{given}, as in earlier updates"
            )
        if user is None:
            return None
        person = hash_user(self._secret, user, "user")
        if self._counts[person] >= self._participations:
            raise BudgetExceeded(
                f"user has been counted {self._counts[person]} times, the maximum "
                f"(participations={self._participations}). Nothing was counted"
            )
        self.order.append(person)
        self._counts[person] += 1
        return person


# Checks of what a counter's save and journal hold.


ENCODING = Encoding(PROTOCOLS | index_by_stored_name(Box, Ball, Bits, SymmetricMatrix))
SAVES = SaveFormat(noun="counter", version=1, encoding=ENCODING)
_PLAIN = {
    "name": str, "secret": str, "horizon": int, "privacy": Privacy, "values": Domain, "seeded": bool | None,
    "protocol": StreamProtocol | BatchProtocol, "people": list, "so_far": dict[str, Any],
}  # fmt: skip


def check_counter_save(content: Mapping[str, Any]) -> None:
    """Refuse a save with wrong types, ranges or shapes, or parts that do not fit."""
    for name, hint in _PLAIN.items():
        check_readable(name in content and matches_type(content[name], hint), f"{name} is missing or of a wrong type")
    check_readable(is_hex(content["name"], 32) and is_hex(content["secret"], 64), "name or secret is not one of ours")
    protocol, horizon, values = content["protocol"], content["horizon"], content["values"]
    check_readable(
        isinstance(protocol, _calibrate_saved(content["privacy"], values)), "a protocol of another privacy model"
    )
    check_readable(protocol.domain == values, "a protocol for other values")
    if isinstance(protocol, CentralContinual):
        check_readable(protocol.factorisation.horizon == horizon, "a stream of another length")
    if isinstance(protocol, ConcurrentShuffle):
        check_readable(protocol.tree.horizon == horizon, "a tree of another length")
    if not isinstance(protocol, Clear):
        check_readable(
            protocol.participations == content["privacy"].participations, "a protocol for other participations"
        )
    check_counter_state(content["so_far"], content)
    users = content["so_far"]["users"]
    check_readable(len(content["people"]) in (0, users), "users of whom some are not named")
    check_readable(all(is_hex(person, 64) for person in content["people"]), "a user who is none")


def check_counter_state(note: Any, content: Mapping[str, Any]) -> None:
    """Refuse a counter's state, from a save or a journal, with wrong parts."""
    check_readable(
        matches_type(note, dict[str, Any]) and set(note) == {"users", "total", "state", "source"}, "no sums so far"
    )
    check_readable(type(note["users"]) is int and 0 <= note["users"] <= content["horizon"], "a wrong number of users")
    check_readable(
        isinstance(note["total"], np.ndarray) and note["total"].shape == (content["values"].dim,), "a wrong sum"
    )
    check_stream_state(note["total"], np.zeros(content["values"].dim), note["users"])
    protocol = content["protocol"]
    fresh = protocol.begin() if isinstance(protocol, StreamProtocol) else None
    check_stream_state(note["state"], fresh, note["users"])
    check_readable(
        (note["source"] is not None) == (content["seeded"] is True), "a generator where none belongs, or none"
    )
    if note["source"] is not None:
        check_source(note["source"])


def _calibrate_saved(privacy: Privacy, values: Domain) -> type | tuple[type, ...]:
    if not privacy.noisy:
        return Clear
    if privacy.model == "local":
        bits = isinstance(values, Bits) and privacy.calibration == "tight"
        return LocalBits if bits else list_local_protocols(privacy)
    return CentralContinual if privacy.model == "central" else ConcurrentShuffle


# Save, and the journal to which every update goes before anybody sees it.


TASK = "counter"  # its releases in the ledger


class CounterStorage:
    """The name, key, journals and ledger of a counter that was saved."""

    def __init__(
        self, terms: dict[str, Any], secret: bytes, name: str, journals: ReplicatedJournal | None = None
    ) -> None:
        self.terms, self.secret, self.name = terms, secret, name
        privacy = terms["privacy"]
        self.ledger: Ledger | None = None
        if privacy.noisy:
            self.journals = journals or ReplicatedJournal(agent=name, terms=terms, secret=secret, encoding=ENCODING)
            self.ledger = Ledger(budget=privacy.budget, participations=privacy.participations, store=self.journals)

    @classmethod
    def of(cls, counter: ContinualSum, secret: bytes) -> CounterStorage:
        """Return the storage of a counter at its first save."""
        terms = {name: getattr(counter, name) for name in ("horizon", "privacy", "values", "protocol")}
        return cls(terms, secret, secrets.token_hex(16))

    def release(self, users: int, statistic: Statistic, person: str | None, draw: Callable[[], dict[str, Any]]) -> Any:
        """Write expense, sum and state of an update in one transaction. Return the noted state."""
        if self.ledger is None:
            return draw()

        def noted() -> Any:
            note = draw()
            self.journals.record_state({"state": note})
            return note["total"]

        self.ledger.release(
            self.terms["protocol"].event,
            task=TASK,
            batch=users,
            data=statistic,
            draw=noted,
            members=None if person is None else [person],
        )
        return self.journals.state()

    def write(self, file: Path, people: list[str], note: dict[str, Any], source: NoiseSource | None) -> None:
        files.check_regular_file(file)
        seeded = None if source is None else not source.secure
        plain = {"name": self.name, "secret": self.secret.hex(), "people": people, "so_far": note, "seeded": seeded}
        text = SAVES.text_of(plain | self.terms)
        if self.ledger is None:
            refuse_journal(file)
            files.write_private_file(file, text)
            return
        self.journals.attach(file, {"state": note})
        files.write_private_file(file, text)
        self.journals.saved(file)


def get_generator(source: NoiseSource | None) -> np.random.PCG64 | None:
    """Return the generator of a seeded source, which a save can hold; None for secure noise."""
    if source is None or type(source) is SecureNoise:
        return None
    made = source._rng.bit_generator if type(source) is FastNoise else None
    if not isinstance(made, np.random.PCG64):
        allowed = "SecureNoise() or FastNoise(np.random.default_rng(seed)) in a counter that is saved"
        raise InvalidArgument("source", ValueSummary.of(source), allowed)
    return made


def restore_source(seeded: bool | None) -> NoiseSource | None:
    """Return a source of the saved kind; the caller sets the state of a seeded one."""
    if seeded is None:
        return None
    return FastNoise(np.random.Generator(np.random.PCG64(0))) if seeded else SecureNoise()


def read_counter(file: Path) -> tuple[CounterStorage, CounterUsers, dict[str, Any], dict[str, Any]]:
    """Return storage, users, newest state and content of a save and its journal."""
    content = SAVES.read(file)
    with SAVES.errors_of(file):
        check_counter_save(content)
        secret, note, order = bytes.fromhex(content["secret"]), content["so_far"], list(content["people"])
        terms = {name: content[name] for name in ("horizon", "privacy", "values", "protocol")}
        journals = None
        if not content["privacy"].noisy:
            refuse_journal(file)
        else:
            journals, notes = ReplicatedJournal.load(
                find_journal_path(file), agent=content["name"], terms=terms, secret=secret, encoding=ENCODING
            )
            note, order = _apply_journal(content, journals, notes["state"])
        kept = CounterStorage(terms, secret, content["name"], journals)
        return kept, CounterUsers(secret, content["privacy"].participations, order), note, content


def _apply_journal(content: dict[str, Any], journals: ReplicatedJournal, note: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the newest state and the users, after the updates of the journal."""
    check_counter_state(note, content)
    entries, saved = journals.entries(), content["so_far"]["users"]
    first = note["users"] - len(entries)
    if note["users"] < saved:
        raise BandannaError("the journal is older than the save: it lacks releases")
    check_readable(0 <= first <= saved, "a journal that begins after the save")
    order = list(content["people"])
    for number, entry in enumerate(entries, start=first):
        named = (entry.task, entry.batch, entry.event) == (TASK, str(number), content["protocol"].event)
        check_readable(
            named and entry.release is not None and len(entry.members) <= 1, "an update that is none of this counter"
        )
        order += entry.members if number >= saved else ()
    check_readable(len(order) in (0, note["users"]), "users of whom some are not named")
    return note, order


# Values.


@dataclass(frozen=True, kw_only=True)
class ValueShape:
    """Convert values to rows of a domain and back, and refuse wrong ones."""

    domain: Domain

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one value: () for bits and numbers, (dim,) for vectors, (size, size) for matrices."""
        if isinstance(self.domain, SymmetricMatrix):
            return self.domain.size, self.domain.size
        return () if isinstance(self.domain, Box) and self.domain.dim == 1 else (self.domain.dim,)

    @property
    def noun(self) -> str:
        if isinstance(self.domain, Bits):
            return "bit"
        return ("number", "vector", "matrix")[len(self.shape)]

    @property
    def allowed(self) -> str:
        domain, size = self.domain, " x ".join(map(str, self.shape))
        if isinstance(domain, Bits):
            return "0 or 1"
        if isinstance(domain, SymmetricMatrix):
            return f"a symmetric {size} matrix of Frobenius norm at most {domain.bound:g}"
        if isinstance(domain, Ball):
            return f"a vector of {size} numbers with norm at most {domain.bound:g}"
        if isinstance(domain, Box):
            numbers = f"[{domain.low:g}, {domain.high:g}]"
            return f"a vector of {size} numbers in {numbers}" if self.shape else f"a number in {numbers}"
        return f"a point of {domain}"

    def one(self, value: ArrayLike) -> Statistic:
        """Return a single user's value as a row, (1, dim), of the domain; refuse it outside."""
        array = self._numbers("value", value)
        if array.shape != self.shape:
            raise InvalidStatistic("value", array, f"{self.allowed}, of shape {self.shape}")
        return self._inside("value", array[None], alone=True)

    def streams(self, values: ArrayLike) -> Statistic:
        """Return values (*R, users, *value) as rows, (*R, users, dim), of the domain; refuse any outside."""
        array = self._numbers("values", values)
        end = len(self.shape)
        if array.ndim <= end or array.shape[array.ndim - end :] != self.shape or array.shape[-end - 1] < 1:
            shape = ", ".join(("...", "users", *map(str, self.shape)))
            given = array
            raise InvalidStatistic(
                "values", given, f"an array of shape ({shape}) with at least one user, each with {self.allowed}"
            )
        return self._inside("values", array, alone=False)

    def to_value_shape(self, rows: Floats) -> Any:
        """Return rows (..., dim) in the shape of values, a single number as a float."""
        if isinstance(self.domain, SymmetricMatrix):
            return self.domain.unpack(rows)
        if self.shape:
            return rows.copy()
        return float(rows[0]) if rows.ndim == 1 else rows[..., 0]

    def _numbers(self, name: str, values: ArrayLike) -> Floats:
        array = read_real_array(name, values, self.allowed)
        if array.ndim:
            check_all_finite(name, array)
        elif not np.isfinite(array):
            raise InvalidStatistic(name, float(array), self.allowed)
        return array

    def _inside(self, name: str, values: Floats, *, alone: bool) -> Statistic:
        """Return rows of the domain, or raise an error with the place of the value that is farthest outside."""
        if isinstance(self.domain, SymmetricMatrix):
            turned = np.max(np.abs(values - np.swapaxes(values, -1, -2)), axis=(-2, -1))
            self._refuse(name, values, turned * (turned > 1e-9 * self.domain.bound), alone=alone)
            rows = self.domain.pack(values)
        else:
            rows = values if self.shape else values[..., None]
        statistic = self.domain.admit(rows)
        if np.any(statistic.clipped):
            self._refuse(name, values, np.max(np.abs(rows - statistic.values), axis=-1), alone=alone)
        return statistic

    def _refuse(self, name: str, values: Floats, distances: Floats, *, alone: bool) -> None:
        if not np.any(distances):
            return
        place = np.unravel_index(int(np.argmax(distances)), distances.shape)
        where = "" if alone else f"[{', '.join(str(int(i)) for i in place)}]"
        raise InvalidStatistic(name + where, ValueSummary("a value outside"), self.allowed)


# The counter.


@dataclass(frozen=True, kw_only=True, eq=False)
class _CounterState:
    """The released sum, (dim,), after `users` updates.

    `state` of a stream protocol is never published; `source` is the state of the seeded generator of a counter on disk.
    """

    users: int
    total: Floats
    state: Any
    source: Any = None

    def note(self) -> dict[str, Any]:
        return {"users": self.users, "total": self.total, "state": self.state, "source": self.source}


@dataclass(kw_only=True, eq=False)
class ContinualSum:
    """Release private running sums over at most `horizon` users, one value each.

    `update(value)` counts one more user; `run(values)` computes all estimates of whole streams. Values have the shape
    () for bits and numbers, (dim,) for vectors, (size, size) for matrices.

    Parameters
    ----------
    horizon
        Largest number of users.
    privacy
        `bd.none()`, `bd.central(...)` ("blt", "tree"), `bd.local(...)`, `bd.shuffle(...)` (one shuffler at a time) or
        `bd.concurrent(..., shufflers=k)`.
    values
        `bd.device.Bits()`, numbers in [0, 1] (`bd.device.Box(dim=1)`, the default), vectors in a `bd.device.Box` or
        `bd.device.Ball`, or a `bd.device.SymmetricMatrix`.
    source
        `bd.device.SecureNoise()` for users, `bd.device.FastNoise(rng)` for simulation.

    Notes
    -----
    `predicted_std` is the error of the worst prefix, per number (off the diagonal of a matrix 1/sqrt 2 of it). In the
    shuffle models the last users, at most `delay`, are not yet in the estimate.
    """

    horizon: int
    privacy: Privacy
    values: Domain = Box(dim=1)
    source: NoiseSource | None = None
    _counter_state: _CounterState = field(init=False, repr=False)
    _pid: int = field(init=False, repr=False, default_factory=os.getpid)
    _alone: threading.RLock = field(init=False, repr=False, default_factory=threading.RLock)
    _secret: bytes = field(init=False, repr=False, default_factory=lambda: secrets.token_bytes(32))
    _people: CounterUsers = field(init=False, repr=False)
    _kept: CounterStorage | None = field(init=False, repr=False, default=None)  # from the first save on
    _settled: bool = field(init=False, repr=False, default=True)

    def __post_init__(self) -> None:
        self.horizon = validation.integer("horizon", self.horizon)
        if not isinstance(self.privacy, Privacy):
            raise InvalidArgument("privacy", self.privacy, "bd.none(), bd.central(...), bd.local(...), ...")
        if not isinstance(self.values, Domain):
            raise InvalidArgument("values", self.values, "a bd.device.Bits, Box, Ball or SymmetricMatrix")
        self.privacy.warn_if_delta_exceeds(self.horizon)
        nothing = np.zeros(self.values.dim)
        state = self.protocol.begin() if isinstance(self.protocol, StreamProtocol) else None
        self._counter_state = _CounterState(users=0, total=nothing, state=state)
        self._people = CounterUsers(self._secret, self.privacy.participations)

    @cached_property
    def protocol(self) -> StreamProtocol | BatchProtocol:
        """The calibrated protocol of the whole stream, or (local, none) of each user."""
        return calibrate_counter(self.privacy, self.values, self.horizon)

    @property
    def guarantee(self) -> Guarantee:
        """Return the guarantee of the sums for one user."""
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
        """Largest number of users who are not yet in the estimate."""
        return self.protocol.delay if isinstance(self.protocol, ConcurrentShuffle) else 0

    @property
    def predicted_error(self) -> float:
        """`predicted_std` + `delay` times the largest value, which degrees="best" minimises."""
        return self.predicted_std + self.delay * self.values.largest_entry

    @property
    def users(self) -> int:
        """Number of users counted by `update`."""
        return self._latest.users

    @property
    def estimate(self) -> Any:
        """The released running sum after the last `update`."""
        return self._kind.to_value_shape(self._latest.total)

    @property
    def _latest(self) -> _CounterState:
        if not self._settled:
            with self._exclusive_process():
                pass
        return self._counter_state

    def __str__(self) -> str:
        waiting = f"the last users, at most {self.delay}, are not yet in it" if self.delay else "all users are in it"
        return (
            f"{self.guarantee} The worst of {self.horizon} running sums has noise of standard deviation "
            f"{self.predicted_std:.4g}; {waiting}."
        )

    def __repr__(self) -> str:
        progress = f"{self.users} of {self.horizon} users counted, each with a {self._kind.noun}"
        return f"<ContinualSum: {progress}, privacy {self.privacy.model}>"

    def update(self, value: ArrayLike, user: str | int | None = None) -> Any:
        """Count one more user, and return the estimate of the running sum. A refused value changes nothing.

        Threads take turns; a forked process is refused. After an interrupt `users` says whether the value was counted.

        Parameters
        ----------
        user
            Id of the value's user, for all updates or for none; each is counted at most `participations` times.
        """
        with self._exclusive_process():
            return self._update(value, user)

    @contextmanager
    def _exclusive_process(self) -> Iterator[None]:
        """Enter in one thread at a time, in the counter's process, after an interrupted call is settled."""
        if os.getpid() != self._pid:  # where the lock may be held by a thread that does not exist
            raise BandannaError(
                "a counter works only in the process that made it. Use ContinualSum.load(path) in this one"
            )
        with self._alone:
            self._settle()
            yield

    def _update(self, value: ArrayLike, user: str | int | None) -> Any:
        source, before = check_noise_source(self.source), self._counter_state
        if before.users >= self.horizon:
            raise InvalidArgument("updates", before.users + 1, f"at most {self.horizon}, the horizon")
        statistic = self._kind.one(value)
        self._settled = False
        person = self._people.admit(user, before.users)
        if self._kept is None:
            after = self._after(before, statistic, source)
        else:
            kept = self._kept.release(
                before.users, statistic, person, lambda: self._after(before, statistic, source).note()
            )
            after = _CounterState(**kept)
        self._counter_state = after  # at once: an interrupt splits nothing
        self._settled = True
        return self._kind.to_value_shape(after.total)

    def _after(self, before: _CounterState, statistic: Statistic, source: NoiseSource) -> _CounterState:
        if isinstance(self.protocol, StreamProtocol):
            state, released = self.protocol.release(before.state, statistic, source)
            total = released.total
        else:
            state, total = None, before.total + self.protocol.release(statistic, source).total
        return _CounterState(users=before.users + 1, total=total, state=state, source=self._randomness())

    def _settle(self) -> None:
        """After an interrupted call, continue from the journals."""
        if self._settled:
            return
        if self._kept is not None:
            if self._kept.ledger is not None:
                self._kept.journals.settle()
                note = self._kept.journals.state()
                if note is not None and note["users"] > self._counter_state.users:  # released, and not known here
                    self._counter_state = _CounterState(**note)
            if (generator := get_generator(self.source)) is not None:
                generator.state = self._counter_state.source  # what was drawn since was not shown
        self._people.forget_after(self._counter_state.users)
        self._settled = True

    def _randomness(self) -> Any:
        generator = None if self._kept is None else get_generator(self.source)
        return None if generator is None else generator.state

    def save(self, path: str | PathLike[str]) -> None:
        """Save the counter to `path` atomically. From then on, each update is first written to `path`.journal.

        Keep both files together. They hold raw data and secrets and have mode 0600.
        """
        with self._exclusive_process():
            file = validation.path("path", path)
            get_generator(self.source)  # refused, if no file can hold it
            self._kept = self._kept or CounterStorage.of(self, self._secret)
            self._counter_state = replace(self._counter_state, source=self._randomness())
            self._kept.write(file, self._people.order, self._counter_state.note(), self.source)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> ContinualSum:
        """Return the counter saved at `path`, with the later updates of its journal."""
        kept, people, note, content = read_counter(validation.path("path", path))
        made = cls.__new__(cls)
        vars(made)["protocol"] = content["protocol"]  # as it was: a search elsewhere might find another
        source = restore_source(content["seeded"])
        made.__init__(  # type: ignore[misc]
            horizon=content["horizon"], privacy=content["privacy"], values=content["values"], source=source
        )
        made._kept, made._secret, made._people, made._counter_state = kept, kept.secret, people, _CounterState(**note)
        if (generator := get_generator(source)) is not None:
            generator.state = note["source"]
        return made

    def run(self, values: ArrayLike, *, path: str = "law") -> Floats:
        """Return estimates after every user of whole streams, (*R, users, *value), independent of `update`.

        Every call and every stream is a release of its own. The guarantee holds for users who are in one of them.

        Parameters
        ----------
        values
            R streams side by side, (*R, users, *value).
        path
            "law" draws batches from their law, for simulation; "messages" runs every message, as a secure source must.
        """
        source = check_noise_source(self.source)
        check_path(path, source)
        statistic = self._kind.streams(values)
        if statistic.values.shape[-2] > self.horizon:
            raise InvalidArgument("users", statistic.values.shape[-2], f"at most {self.horizon}, the horizon")
        if isinstance(self.protocol, StreamProtocol):
            return np.asarray(self._kind.to_value_shape(self.protocol.prefixes(statistic, source, path=path)))
        messages = self.protocol.device.message(statistic, source)[..., None, :]  # each user alone: nothing to shorten
        each = self.protocol.release_messages(messages, source).total
        return np.asarray(self._kind.to_value_shape(np.cumsum(each, axis=-2)))

    @property
    def _kind(self) -> ValueShape:
        return ValueShape(domain=self.values)
