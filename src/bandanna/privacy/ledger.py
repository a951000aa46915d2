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
    """The public part of an expense: `release` is the noisy result, None if it was not drawn yet."""

    task: str
    batch: str
    event: Event
    release: Any


@dataclass(frozen=True, kw_only=True)
class LedgerView:
    """A public copy of a ledger at one moment: values only, without key, fingerprints, members or store.

    A fingerprint has no noise: with the key, an attacker who knows all data of a batch but one person's finds that
    person's by trying. A view has neither, so it may be kept, pickled and published.
    """

    budget: Budget
    participations: int
    _released: tuple[LedgerRelease, ...] = field(repr=False)

    @classmethod
    def of(cls, budget: Budget, participations: int, entries: Iterable[LedgerEntry]) -> LedgerView:
        """Return the public view of these entries."""
        released = tuple(
            LedgerRelease(task=one.task, batch=one.batch, event=one.event, release=one.release and one.release[0])
            for one in entries
        )
        return cls(budget=budget, participations=participations, _released=released)

    @property
    def releases(self) -> tuple[LedgerRelease, ...]:
        """The releases, in order; a copy, so that the stored releases cannot be changed."""
        shown = (replace(one, task=one.task.replace(accountant.SEPARATOR, ", ")) for one in self._released)
        return deepcopy(tuple(shown))

    def __str__(self) -> str:
        """Return price, budget and number of releases in a line."""
        spent, delta, count = format_rounded_up(self.spent()), stated_delta(self.budget), len(self._released)
        times = "once" if self.participations == 1 else f"{self.participations:,} times"
        released = "1 release" if count == 1 else f"{count:,} releases"
        return (
            f"epsilon = {spent} at delta = {delta:g} spent in {released}, by who takes part {times}; of {self.budget}"
        )

    def spent(self) -> float:
        """Return the epsilon spent so far by the user with the most participations, at the budget's delta (or 1e-6)."""
        tasks: dict[str, Counter[Event]] = {}
        for one in self._released:
            tasks.setdefault(one.task, Counter())[one.event] += 1
        return accountant.compute_spent(tasks, self.participations, stated_delta(self.budget))

    def balance(self) -> BudgetBalance:
        """Return what is spent and what remains, as epsilon at one delta."""
        delta = stated_delta(self.budget)
        whole = self.budget.to_approx(delta) if isinstance(self.budget, PureDP | ZCDP | RenyiDP) else self.budget
        return BudgetBalance(spent=self.spent(), total=getattr(whole, "epsilon", math.inf), delta=delta)


@dataclass(frozen=True, kw_only=True)
class BudgetBalance:
    """What is spent of a budget, and what remains: for the person who can have paid most.

    Parameters
    ----------
    spent, total
        Epsilon at `delta`: of all releases so far together, and of the whole budget. People who are in different
        batches pay side by side, so `spent` need not grow with every release.
    delta
        That of the budget; 1e-6 for a budget without one.
    """

    spent: float
    total: float
    delta: float

    @property
    def remaining(self) -> float:
        """`total` less `spent`, at least 0; a release is refused by its exact price, not by this number."""
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
    """Guards one budget per person over any number of tasks.

    A release is identified by (task, batch). The first time, the ledger checks that it fits the budget, commits the
    expense, has the noise drawn, stores the release and returns it. Asked again, after a crash or by another reader, it
    returns the stored release and spends nothing. Other data, or another mechanism, under the same id is refused: fresh
    noise on the same data would be a second release. If the noise could not be drawn or stored, the expense stays
    committed and the same request may be repeated.

    A person is in at most `participations` batches of a task. Without `members` the caller promises this; with them the
    ledger counts and refuses. Tasks compose, because a person may be in all of them.

    Parameters
    ----------
    budget
        The budget of each person.
    participations
        Largest number of batches of a task with the same person.
    store
        Where the entries are kept; by default in memory.
    """

    budget: Budget
    participations: int = 1
    store: LedgerStore = field(default_factory=MemoryStore)

    def __post_init__(self) -> None:
        validation.set_validated(self, validation.integer, "participations")
        if not isinstance(self.budget, Budget):
            raise InvalidArgument("budget", self.budget, "a Budget: ApproxDP, PureDP, ZCDP or RenyiDP")
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
        data
            What the release is about. Only a keyed fingerprint of it is kept.
        draw
            Returns the noisy result.
        members
            Ids of the batch's users; the ledger counts them.
        streams
            Number of continual releases with this price that the task has begun, one after the other, for different
            people. More than one only if each person is in one batch.
        one_of
            Alternative of the task: the batch is about the people in this alternative, all of them, and no others
            (`accountant.iterate_alternatives`). Batches of an alternative compose, and the dearest alternative counts.
            For Gaussian sums of reports in a ball around 0, from people with one report each; `members` of two
            alternatives are refused.

        Returns
        -------
        The noisy result, drawn now or stored before.
        """
        task, batch = find_store_id(task, batch, one_of)
        if not isinstance(event, Event):
            raise UnknownEvent(f"the accountant does not know {type(event).__name__} and does not guess")
        if not callable(draw):
            raise InvalidArgument("draw", draw, "a function without arguments that draws the release")
        people = _read_people(members)
        if validation.integer("streams", streams) > 1 and self.participations > 1:
            raise InvalidArgument("streams", streams, f"1 for {self.participations} participations: nobody is in two")
        if one_of is not None:
            self._check_alternative(event, one_of)
        mark = self._fingerprint(data, event)

        def once() -> Any:
            entry = self.store.find(task, batch)
            if entry is None:
                self._check_members(task, batch, people)
                self._check_apart(task, people)
                tasks = self.store.tasks()
                self._check_streams(task, event, steps=tasks.get(task, Counter())[event], streams=streams)
                self._check_budget(task, event, tasks)
                entry = LedgerEntry(task=task, batch=batch, event=event, fingerprint=mark, members=people)
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
            return deepcopy(entry.release[0])  # the stored release stays what it was, whatever a caller does with his

        return self.store.alone(once)

    def find_task(self, event: Event, data: Statistic | ArrayLike | bytes, prefix: str) -> str | None:
        """Return the task whose name begins with `prefix` and that has released this event on these data, or None."""
        mark = self._fingerprint(data, event)
        return next((one.task for one in self.store.entries()
                     if one.task.startswith(prefix) and hmac.compare_digest(one.fingerprint, mark)), None)  # fmt: skip

    def spent(self) -> float:
        """Return the epsilon spent so far by the user with the most participations, at the budget's delta (or 1e-6)."""
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
                f"task {format_value(task)} would bring epsilon to {would:.4g} at delta {delta:.3g}, from"
                f" {self.spent():.4g}; the budget is {self.budget}; nothing was spent or released"
            )

    def _check_streams(self, task: str, event: Event, steps: int, streams: int) -> None:
        for atom in map(unwrap_record, accountant.count_atoms(event)):
            if isinstance(atom, ContinualEvent) and atom.participations < self.participations:
                allowed = f"at least the ledger's {self.participations}: a stream's price covers its own participations"
                raise InvalidArgument("event.participations", atom.participations, allowed)
            if isinstance(atom, ContinualEvent) and steps >= streams * atom.factorisation.horizon:
                raise BudgetExceeded(
                    f"the stream of task {format_value(task)} is priced for {atom.factorisation.horizon} steps"
                )

    def _check_alternative(self, event: Event, one_of: str) -> None:
        """Refuse all but Gaussian noise on one report each: only there an alternative costs no more than to stay."""
        if self.participations > 1:
            allowed = f"None for {self.participations} participations: somebody's reports would be in one sum"
            raise InvalidArgument("one_of", one_of, allowed)
        if not all(isinstance(unwrap_record(atom), GaussianEvent) for atom in accountant.count_atoms(event)):
            raise InvalidArgument("event", type(event).__name__, "Gaussian noise on a sum, where alternatives are")

    def _check_apart(self, task: str, people: tuple[str, ...]) -> None:
        """Refuse people who are in two alternatives."""
        for other in accountant.find_other_alternatives(task, self.store.tasks()) if people else ():
            seen = self.store.appearances(other, people)
            for place, person in enumerate(people):
                if seen[person]:
                    allowed = "who are in no other alternative of the task"
                    raise InvalidArgument(f"members[{place}]", "one who is in another one", f"people {allowed}")

    def _check_members(self, task: str, batch: str, people: tuple[str, ...]) -> None:
        named = self.store.named(task)
        if named is not None and named != bool(people):
            allowed = f"given for all batches of task {format_value(task)}, or for none"
            raise InvalidArgument("members", f"{len(people)} ids", allowed)
        counts, seen = Counter(people), self.store.appearances(task, people)
        for place, person in enumerate(people):  # an id does not belong in a message
            if counts[person] > 1:
                allowed = f"each person at most once in batch {format_value(batch)}"
                raise InvalidArgument(f"members[{place}]", "one who is there twice", allowed)
            if seen[person] >= self.participations:
                allowed = f"at most {self.participations} batches of task {format_value(task)} for each person"
                raise BudgetExceeded(f"members[{place}] has been in {seen[person]}; allowed are {allowed}")

    def _fingerprint(self, data: Statistic | ArrayLike | bytes, event: Event) -> str:
        if isinstance(data, bytes):
            kind, content = "bytes", data
        else:
            array = read_numeric_array("data", data.values if isinstance(data, Statistic) else data, "numbers or bytes")
            kind, content = f"{array.dtype.str}{array.shape}", np.ascontiguousarray(array).tobytes()
            if isinstance(data, Statistic) and data.counts is not None:
                kind, content = f"{kind} by counts", content + np.ascontiguousarray(data.counts).tobytes()
        return hmac.new(
            self.store.secret(), f"{format_event(event)}|{kind}|".encode() + content, hashlib.sha256
        ).hexdigest()


def find_store_id(task: str | int, batch: str | int, one_of: str | None = None) -> tuple[str, str]:
    """Return the task and batch under which a store keeps an entry."""
    named = _check_name("task", task), _check_name("batch", batch)
    return (
        named
        if one_of is None
        else (accountant.SEPARATOR.join((named[0], _check_name("one_of", one_of), named[1])), "0")
    )


def _check_name(argument: str, value: Any) -> str:
    """Return the name of a task or a batch as a text that a file can hold."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        return str(validation.integer(argument, value, least=-validation.LARGEST_EXACT_INTEGER))
    if (
        not isinstance(value, str)
        or accountant.SEPARATOR in value
        or (not value.isascii() and "\ufffd" in value.encode(errors="replace").decode())
    ):
        raise InvalidArgument(argument, value, "a text or a whole number")
    return value


def _read_people(members: Any) -> tuple[str, ...]:
    """Return the ids of a batch's users as texts."""
    if members is None:
        return ()
    return tuple(
        map(str, members if isinstance(members, Set) else validation.list_entries("members", members, "user ids"))
    )


# Users


_BITS = 4096  # of a whole number: its digits can be written


def hash_user(secret: bytes, user: Any, name: str) -> str:
    """Return the keyed hash under which a user is kept; 17, NumPy's 17 and "17" are equal. Errors never show an id."""
    allowed = "a user's id: a text that is not empty, or a whole number"
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
