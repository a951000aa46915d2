"""The ledger: checks a release against the budget, records it, and only then has the noise drawn."""

from __future__ import annotations

import hashlib
import hmac
import math
from collections import Counter
from collections.abc import Callable, Iterable, Set
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bandanna import validation
from bandanna.device.domain import Statistic, read_numeric_array
from bandanna.errors import (
    BudgetExceeded,
    ConflictingRelease,
    InvalidArgument,
    InvalidStatistic,
    UnknownEvent,
    ValueSummary,
    format_value,
)
from bandanna.privacy import accountant
from bandanna.privacy.budgets import ZCDP, ApproxDP, Budget, PureDP, RenyiDP
from bandanna.privacy.events import ContinualEvent, Event, GaussianEvent, format_event, unwrap_record
from bandanna.privacy.guarantee import format_rounded_up
from bandanna.privacy.stores.base import LedgerEntry, LedgerStore, MemoryStore

# Public view


@dataclass(frozen=True, kw_only=True)
class LedgerRelease:
    """The public part of an expense.

    Parameters
    ----------
    release
        The noisy result; None if it was not drawn yet.
    """

    task: str
    batch: str
    event: Event
    release: Any


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """A public copy of a ledger at one moment, without key, fingerprints, members or store.

    Parameters
    ----------
    budget, participations
        Those of the ledger.
    """

    budget: Budget
    participations: int
    _released: tuple[LedgerRelease, ...] = field(repr=False)

    @classmethod
    def of(cls, budget: Budget, participations: int, entries: Iterable[LedgerEntry]) -> LedgerView:
        released = tuple(
            LedgerRelease(task=one.task, batch=one.batch, event=one.event, release=one.release and one.release[0])
            for one in entries
        )
        return cls(budget=budget, participations=participations, _released=released)

    @property
    def releases(self) -> tuple[LedgerRelease, ...]:
        """The releases, in order, as copies."""
        shown = (replace(one, task=one.task.replace(accountant.SEPARATOR, ", ")) for one in self._released)
        return deepcopy(tuple(shown))

    def __str__(self) -> str:
        spent, delta, count = format_rounded_up(self.spent()), stated_delta(self.budget), len(self._released)
        times = "once" if self.participations == 1 else f"{self.participations:,} times"
        released = "1 release" if count == 1 else f"{count:,} releases"
        return (
            f"epsilon = {spent} at delta = {delta:g} spent in {released} by a user who takes part {times}; "
            f"the budget is {self.budget}"
        )

    def spent(self) -> float:
        """Return epsilon of the user with the most participations so far, at the budget's delta (or 1e-6)."""
        tasks: dict[str, Counter[Event]] = {}
        for one in self._released:
            tasks.setdefault(one.task, Counter())[one.event] += 1
        return accountant.compute_spent(tasks, self.participations, stated_delta(self.budget))

    def balance(self) -> BudgetBalance:
        """Return the spent and the remaining epsilon at one delta."""
        delta = stated_delta(self.budget)
        whole = self.budget.to_approx(delta) if isinstance(self.budget, PureDP | ZCDP | RenyiDP) else self.budget
        return BudgetBalance(spent=self.spent(), total=getattr(whole, "epsilon", math.inf), delta=delta)


@dataclass(frozen=True, kw_only=True)
class BudgetBalance:
    """The spent and the remaining part of a budget, for the user who can have paid most.

    Parameters
    ----------
    spent, total
        Epsilon at `delta`: of all releases so far, and of the whole budget.
    delta
        Delta of the budget; 1e-6 for a budget without one.
    """

    spent: float
    total: float
    delta: float

    @property
    def remaining(self) -> float:
        """`total` less `spent`, at least 0. The ledger decides by exact prices instead."""
        return max(0.0, self.total - self.spent)

    def __str__(self) -> str:
        spent, total = format_rounded_up(self.spent), format_rounded_up(self.total)
        return f"epsilon = {spent} of {total} spent at delta = {self.delta:g}"


def stated_delta(budget: Budget) -> float:
    """Return the delta at which an expense is stated."""
    return budget.delta if isinstance(budget, ApproxDP) else 1e-6


# Ledger


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """Guards one budget per user over any number of tasks.

    A release is identified by (task, batch). The ledger checks that it fits the budget, commits the expense, draws the
    noise, stores the release and returns it. A repeated request returns the stored release and spends nothing; other
    data or another mechanism under the same id are refused. If drawing or storing fails, the expense stays committed
    and the request may be repeated.

    A user is in at most `participations` batches of a task. Without `members` the caller promises this; with them the
    ledger counts. Tasks compose.

    Parameters
    ----------
    budget
        The budget of each user.
    participations
        Largest number of batches of a task with the same user.
    store
        The store of the entries; by default in memory.
    """

    budget: Budget
    participations: int = 1
    store: LedgerStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "participations")
        if not isinstance(self.budget, Budget):
            raise InvalidArgument("budget", self.budget, "an ApproxDP, PureDP, ZCDP or RenyiDP")
        if not isinstance(self.store, LedgerStore):
            raise InvalidArgument("store", self.store, "a LedgerStore")

    def release(
        self,
        event: Event,
        *,
        task: str,
        batch: str | int,
        data: Statistic | ArrayLike | bytes,
        draw: Callable[[], Any],
        members: Iterable[str] | None = None,
        streams: int = 1,
        one_of: str | None = None,
    ) -> Any:
        """Release (task, batch) once: `draw` is called at most once per stored result, after the expense is committed.

        Parameters
        ----------
        event
            The price of `draw`.
        task, batch
            The id of the release.
        data
            The data of the release. Only a keyed fingerprint is kept.
        draw
            A function that returns the noisy result.
        members
            Ids of the batch's users; the ledger counts them.
        streams
            Number of the task's continual releases with this price, for different users. More than one only if each
            user is in one batch.
        one_of
            Alternative of the task: the batch has all users of this alternative and no others
            (`accountant.iterate_alternatives`). The dearest counts. Only for Gaussian sums of reports in a ball around
            0, with one report per user.

        Returns
        -------
        Any
            The noisy result, drawn now or stored before.
        """
        task, batch = find_store_id(task, batch, one_of)
        if not isinstance(event, Event):
            raise UnknownEvent(f"the accountant does not know {type(event).__name__} and does not guess")
        if not callable(draw):
            raise InvalidArgument("draw", draw, "a function without arguments that draws the release")
        users = _read_members(members)
        if validation.integer("streams", streams) > 1 and self.participations > 1:
            allowed = f"1 for {self.participations} participations"
            raise InvalidArgument("streams", streams, allowed, "No user may be in two streams")
        if one_of is not None:
            self._check_alternative(event, one_of)
        mark = self._fingerprint(data, event)

        def once() -> Any:
            entry = self.store.find(task, batch)
            if entry is None:
                self._check_members(task, batch, users)
                self._check_apart(task, users)
                tasks = self.store.tasks()
                self._check_streams(task, event, steps=tasks.get(task, Counter())[event], streams=streams)
                self._check_budget(task, event, tasks)
                entry = LedgerEntry(task=task, batch=batch, event=event, fingerprint=mark, members=users)
                self.store.commit(entry)
            elif not hmac.compare_digest(entry.fingerprint, mark):
                raise ConflictingRelease(
                    f"task {format_value(task)}, batch {format_value(batch)} belongs to other data or another mechanism"
                    "; nothing was released"
                )
            if entry.release is None:
                result = draw()
                self.store.keep(task, batch, deepcopy(result))
                return result
            return deepcopy(entry.release[0])

        return self.store.alone(once)

    def find_task(self, event: Event, data: Statistic | ArrayLike | bytes, prefix: str) -> str | None:
        """Return the task whose name begins with `prefix` and that has released this event on these data, or None."""
        mark = self._fingerprint(data, event)
        return next((one.task for one in self.store.entries()
                     if one.task.startswith(prefix) and hmac.compare_digest(one.fingerprint, mark)), None)  # fmt: skip

    def spent(self) -> float:
        """Return epsilon of the user with the most participations so far, at the budget's delta (or 1e-6)."""
        return accountant.compute_spent(self.store.tasks(), self.participations, stated_delta(self.budget))

    def view(self) -> LedgerView:
        """Return the public view, without the key, the fingerprints and the members."""
        return LedgerView.of(self.budget, self.participations, self.store.entries())

    def _check_budget(self, task: str, event: Event, tasks: dict[str, accountant.EventCounts]) -> None:
        tasks.setdefault(task, Counter())[event] += 1
        if not accountant.is_within_budget(tasks, self.participations, self.budget):
            delta = stated_delta(self.budget)
            would = accountant.compute_spent(tasks, self.participations, delta)
            raise BudgetExceeded(
                f"task {format_value(task)} would bring epsilon to {would:.6g} at delta {delta:.3g}, from"
                f" {self.spent():.6g}; the budget is {self.budget}; nothing was spent or released"
            )

    def _check_streams(self, task: str, event: Event, steps: int, streams: int) -> None:
        for atom in map(unwrap_record, accountant.count_atoms(event)):
            if isinstance(atom, ContinualEvent) and atom.participations < self.participations:
                allowed = f"at least {self.participations}, the participations of the ledger"
                raise InvalidArgument("event.participations", atom.participations, allowed)
            if isinstance(atom, ContinualEvent) and steps >= streams * atom.factorisation.horizon:
                raise BudgetExceeded(
                    f"the stream of task {format_value(task)} is priced for {atom.factorisation.horizon} steps"
                )

    def _check_alternative(self, event: Event, one_of: str) -> None:
        if self.participations > 1:
            hint = "A user's reports would be in several sums"
            raise InvalidArgument("one_of", one_of, f"None for {self.participations} participations", hint)
        if not all(isinstance(unwrap_record(atom), GaussianEvent) for atom in accountant.count_atoms(event)):
            allowed = "Gaussian noise on a sum for a task with alternatives"
            raise InvalidArgument("event", ValueSummary.of(event), allowed)

    def _check_apart(self, task: str, users: tuple[str, ...]) -> None:
        for other in accountant.find_other_alternatives(task, self.store.tasks()) if users else ():
            seen = self.store.appearances(other, users)
            for place, user in enumerate(users):
                if seen[user]:
                    given, allowed = (
                        ValueSummary("one who is in another"),
                        "a user of this alternative of the task only",
                    )
                    raise InvalidArgument(f"members[{place}]", given, allowed)

    def _check_members(self, task: str, batch: str, users: tuple[str, ...]) -> None:
        named = self.store.named(task)
        if named is not None and named != bool(users):
            allowed = f"given for all batches of task {format_value(task)}, or for none"
            raise InvalidArgument("members", ValueSummary(f"{len(users)} ids"), allowed)
        counts, seen = Counter(users), self.store.appearances(task, users)
        for place, user in enumerate(users):  # an id does not belong in a message
            if counts[user] > 1:
                allowed = f"a user who is in batch {format_value(batch)} once"
                raise InvalidArgument(f"members[{place}]", ValueSummary("one who is there twice"), allowed)
            if seen[user] >= self.participations:
                raise BudgetExceeded(
                    f"members[{place}] has been in {seen[user]} batches of task {format_value(task)}; allowed are at "
                    f"most {self.participations} for each user"
                )

    def _fingerprint(self, data: Statistic | ArrayLike | bytes, event: Event) -> str:
        if isinstance(data, bytes):
            kind, content = "bytes", data
        else:
            array = read_numeric_array("data", data.values if isinstance(data, Statistic) else data, "numbers or bytes")
            kind, content = f"{array.dtype.str}{array.shape}", np.ascontiguousarray(array).tobytes()
            if isinstance(data, Statistic) and data.counts is not None:
                kind, content = f"{kind} by counts", content + np.ascontiguousarray(data.counts).tobytes()
        message = f"{format_event(event)}|{kind}|".encode() + content
        return hmac.new(self.store.secret(), message, hashlib.sha256).hexdigest()


def find_store_id(task: str | int, batch: str | int, one_of: str | None = None) -> tuple[str, str]:
    """Return the task and batch under which a store keeps an entry."""
    named = _check_name("task", task), _check_name("batch", batch)
    if one_of is None:
        return named
    return accountant.SEPARATOR.join((named[0], _check_name("one_of", one_of), named[1])), "0"


def _check_name(argument: str, value: Any) -> str:
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return str(validation.integer(argument, value, least=-validation.LARGEST_EXACT_INTEGER))
    half = isinstance(value, str) and not value.isascii() and "\ufffd" in value.encode(errors="replace").decode()
    if not isinstance(value, str) or accountant.SEPARATOR in value or half:
        raise InvalidArgument(argument, value, "a text or a whole number")
    return value


def _read_members(members: Any) -> tuple[str, ...]:
    if members is None:
        return ()
    ids = members if isinstance(members, Set) else validation.list_entries("members", members, "user ids")
    return tuple(map(str, ids))


# Users


_BITS = 4096  # of a whole number: its digits can be written


def hash_user(secret: bytes, user: Any, name: str) -> str:
    """Return the keyed hash of a user id; 17, NumPy's 17 and "17" are equal. Errors never show an id."""
    allowed = "a non-empty text or a whole number"
    if isinstance(user, bool | np.timedelta64) or not isinstance(user, str | int | np.integer):
        raise InvalidStatistic(name, user, allowed)
    if isinstance(user, str):
        plain = str.__str__(user)  # an enumeration's member is its value
    elif int.bit_length(number := int(user)) <= _BITS:
        plain = int.__repr__(number)
    else:
        raise InvalidStatistic(name, ValueSummary("a longer number"), f"{allowed} of at most {_BITS} bits")
    if not plain:
        raise InvalidStatistic(name, ValueSummary("an empty text"), allowed)
    return hmac.digest(secret, f"user {plain}".encode(errors="surrogatepass"), hashlib.sha256).hex()
