"""A counter on the disk: a save, and the journal to which every update goes before anybody sees it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bandanna.accounting.ledger import Ledger
from bandanna.accounting.stores.journals import Journals, journal_of, refuse_journal
from bandanna.core.domain import Statistic
from bandanna.counters.kinds import ENCODING, SAVES, check_save, check_so_far
from bandanna.counters.people import People
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.mechanisms.sources import FastNoise, NoiseSource, SecureNoise
from bandanna.storage import files
from bandanna.storage.checks import demand

if TYPE_CHECKING:
    from bandanna.counters.continual_sum import ContinualSum

TASK = "counter"  # its releases in the ledger


class Kept:
    """What a counter that is saved has beside its sums: a name, a key, journals, and a ledger over them."""

    def __init__(self, terms: dict[str, Any], secret: bytes, name: str, journals: Journals | None = None) -> None:
        self.terms, self.secret, self.name = terms, secret, name
        privacy = terms["privacy"]
        self.ledger: Ledger | None = None
        if privacy.noisy:
            self.journals = journals or Journals(agent=name, terms=terms, secret=secret, encoding=ENCODING)
            self.ledger = Ledger(budget=privacy.budget, participations=privacy.participations, store=self.journals)

    @classmethod
    def of(cls, counter: ContinualSum, secret: bytes) -> Kept:
        """For a counter that is saved for the first time."""
        terms = {name: getattr(counter, name) for name in ("horizon", "privacy", "values", "protocol")}
        return cls(terms, secret, secrets.token_hex(16))

    def release(self, users: int, statistic: Statistic, person: str | None, draw: Callable[[], dict[str, Any]]) -> Any:
        """One more update: its expense, the new sum and the new state become durable together; the note of it."""
        if self.ledger is None:
            return draw()

        def noted() -> Any:
            note = draw()
            self.journals.advance({"state": note})
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
        """The save, after its journal."""
        files.refuse_others(file)
        seeded = None if source is None else not source.secure
        plain = {"name": self.name, "secret": self.secret.hex(), "people": people, "so_far": note, "seeded": seeded}
        text = SAVES.text_of(plain | self.terms)
        if self.ledger is None:
            refuse_journal(file)
            files.write(file, text)
            return
        self.journals.attach(file, {"state": note})
        files.write(file, text)
        self.journals.saved(file)


def generator_of(source: NoiseSource | None) -> np.random.PCG64 | None:
    """That of a seeded source, whose state a save can hold; None for secure noise."""
    if source is None or type(source) is SecureNoise:
        return None
    made = source._rng.bit_generator if type(source) is FastNoise else None
    if not isinstance(made, np.random.PCG64):
        given = type(source).__name__
        raise InvalidArgument("source", given, "SecureNoise(), or FastNoise(np.random.default_rng(seed)), to be saved")
    return made


def source_of(seeded: bool | None) -> NoiseSource | None:
    """A source of the kind that was saved; where a seeded one is, its state says."""
    if seeded is None:
        return None
    return FastNoise(np.random.Generator(np.random.PCG64(0))) if seeded else SecureNoise()


def read(file: Path) -> tuple[Kept, People, dict[str, Any], dict[str, Any]]:
    """What was saved, and what was released since: the counter's parts, its people, how far it is, its save."""
    content = SAVES.read(file)
    with SAVES.errors_of(file):
        check_save(content)
        secret, note, order = bytes.fromhex(content["secret"]), content["so_far"], list(content["people"])
        terms = {name: content[name] for name in ("horizon", "privacy", "values", "protocol")}
        journals = None
        if not content["privacy"].noisy:
            refuse_journal(file)
        else:
            journals, notes = Journals.load(
                journal_of(file), agent=content["name"], terms=terms, secret=secret, encoding=ENCODING
            )
            note, order = _newest(content, journals, notes["state"])
        kept = Kept(terms, secret, content["name"], journals)
        return kept, People(secret, content["privacy"].participations, order), note, content


def _newest(content: dict[str, Any], journals: Journals, note: Any) -> tuple[dict[str, Any], list[str]]:
    """Updates that came after the save are in the journal, with the noise they had."""
    check_so_far(note, content)
    entries, saved = journals.entries(), content["so_far"]["users"]
    first = note["users"] - len(entries)
    if note["users"] < saved:
        raise BandannaError("the journal is older than the save: it lacks releases")
    demand(0 <= first <= saved, "a journal that begins after the save")
    order = list(content["people"])
    for number, entry in enumerate(entries, start=first):
        named = (entry.task, entry.batch, entry.event) == (TASK, str(number), content["protocol"].event)
        demand(
            named and entry.release is not None and len(entry.members) <= 1, "an update that is none of this counter"
        )
        order += entry.members if number >= saved else ()
    demand(len(order) in (0, note["users"]), "users of whom some are not named")
    return note, order
