"""Release and learn: what closes an agent's episodes, and what puts things right after an interruption."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bandanna.accounting.ledger import entry_name
from bandanna.agent.plan import Batch, following
from bandanna.agent.progress import Progress
from bandanna.agent.release import NotStored, Release
from bandanna.agent.releases import calibrations, phases_of
from bandanna.agent.rows import as_columns
from bandanna.agent.standing import Standing
from bandanna.loop import Desk
from bandanna.policies.base import Played


class Releasing(Standing):
    """The part of the loop that answers asks and goes on with what was learned."""

    def close(self) -> None:
        """Release the complete episodes, and no more decisions."""
        self.settled = False
        self._close(0)
        self.over = self.settled = True

    def _close(self, grace: int) -> None:
        """Release the episodes that are due, in order."""
        while (batch := self.due(grace, self.made)) is not None:
            Release(self, batch).run()

    def find(self, task: str, batch: str, one_of: str | None) -> Any:
        """What was answered before: an estimate, or several."""
        entry = None if self.ledger is None else self.journals.find(*entry_name(task, batch, one_of))
        return None if entry is None or entry.release is None else entry.release[0]

    def noted(self) -> None:
        """Go on from what the journals know."""
        self.known = phases_of(self.policy)
        self.progress = Progress.read(self.journals.state())

    def go_on(self, progress: Progress, learned: Any, batch: Batch, played: Played) -> None:
        """The episode is learned."""
        if self.policy.keeps:
            self.kept.setdefault(batch.number, played)
        scheduled = following(self.policy, batch) is not None
        begin = batch.end if scheduled else max(batch.end, self.made)
        self.progress = replace(progress, state=learned, begin=begin, asked=0, closed=progress.closed + 1)
        needed = self._needed()
        if next(iter(self.kept), needed) < needed:
            self.kept = {number: rows for number, rows in self.kept.items() if number >= needed}
            self._split = {number: held for number, held in self._split.items() if number in self.kept}
        self.made = max(self.made, begin)  # more than a save knows
        self.slots.drop(batch)
        self.see(self.filling if scheduled else None)

    def _needed(self) -> int:
        """Rows of episodes before this number are kept under no name."""
        return min((self.progress.forgot.get(name, 0) for name in self.policy.keeps), default=0)

    def kept_with(self, episode: int, played: Played) -> Desk:
        """The rows that later asks may be about, those of an episode among them."""
        kept: dict[str, list[Played]] = {}
        forgot = self.progress.forgot
        for number, rows in sorted({**self.kept, episode: played}.items()):
            for name, parts in self._by_name(number, rows).items():
                if number >= forgot.get(name, 0):
                    kept.setdefault(name, []).extend(parts)
        return Desk(kept={name: tuple(parts) for name, parts in kept.items()})

    def _by_name(self, number: int, rows: Played) -> Mapping[str, tuple[Played, ...]]:
        """The rows of an episode under the names that their devices chose: found once, since later asks come again."""
        held = self._split.get(number)
        if held is None or held[0] is not rows:
            self._split[number] = held = rows, Desk().keep(self.policy.keeps, rows).kept
        return held[1]

    def settle(self) -> None:
        """After a call that was interrupted, go on from what the journals and the slots say; else do nothing."""
        if self.settled:
            return
        if self.ledger is not None:
            self.journals.settle()
            if self.journals.count() != self.progress.released:  # released, and not known here
                self.progress = Progress.read(self.journals.state())
        self.tidy()
        self.settled = True

    def tidy(self) -> None:
        """What follows from the progress and the decisions made: open slots, the episode that is filling, noise."""
        begin = self.progress.begin
        self.made = max(self.made, begin)  # more than a save knows, if they were released after it
        self.slots = self.slots.between(begin, self.made)
        self.known = 0
        if self.rng is not None:
            self.rng.bit_generator.state = self.progress.source  # nobody has seen what was drawn since
        self.see()
        self.replay()

    def replay(self) -> None:
        """An episode all of whose asks were answered is learned, by whatever is stored."""
        while self.progress.asked and self.now.batch is not None:
            try:
                Release(self, self.now.batch).run(draw=False)
            except NotStored:
                self.made = max(self.made, self.now.batch.end + self.grace)  # it was due
                return

    def notes(self, after: Progress, kept: tuple[int, Played | None] = (0, None)) -> dict[str, Any]:
        """What a journal must know to go on: calibrations if there are more than it knows, rows that are new."""
        notes: dict[str, Any] = {"state": after.note()}
        if phases_of(self.policy) > self.known:
            notes["calibrations"] = calibrations(self.policy)
        number, rows = kept
        if rows is not None:
            notes[f"kept {number}"] = as_columns(rows)
        before, needed = self._needed(), min((after.forgot.get(n, 0) for n in self.policy.keeps), default=0)
        return notes | {f"kept {gone}": None for gone in range(before, needed)}

    def all_notes(self) -> dict[str, Any]:
        """For a journal that knows nothing."""
        rows = {f"kept {number}": as_columns(played) for number, played in self.kept.items()}
        return {"state": self.progress.note(), "calibrations": calibrations(self.policy)} | rows
