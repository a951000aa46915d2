"""An agent as a file: everything it is, whole or not at all, beside the journals of what it has released."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

from bandanna.accounting.stores.journals import Journals, journal_of, refuse_journal
from bandanna.agent.alone import alone
from bandanna.agent.kinds import saves_of
from bandanna.agent.loop import Loop
from bandanna.agent.records import Records
from bandanna.agent.releases import as_begun, calibrations, recalibrate
from bandanna.agent.reporting import Reporting
from bandanna.agent.resume import resume
from bandanna.agent.rows import as_columns
from bandanna.agent.schema import check_arms, check_save
from bandanna.core import require
from bandanna.errors import BandannaError, InvalidArgument
from bandanna.features.map import Map
from bandanna.policies.base import Policy
from bandanna.storage import files
from bandanna.storage.encoding import Encoding
from bandanna.storage.saves import Saves


class Saving(Reporting):
    """The part of an agent that is written to files."""

    _name: str  # of the agent, in its journals
    _kept: bool  # whether it was saved, or loaded
    _encoding: Encoding

    @alone
    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to `path`, whole or not at all, and from now on every release to `path`.journal first.

        Both files hold raw data and secrets, and are readable by their owner only.
        """
        file, loop, self._kept = require.path("path", path), self._loop, True
        files.refuse_others(file)
        content = {
            "name": self._name,
            "policy": loop.policy,
            "calibrations": calibrations(loop.policy),
            "grace": loop.grace,
            "seed": self._seed,
            "secret": loop.secret.hex(),
            "slots": loop.slots.to_columns(),
            "clients": loop.clients.to_columns(),
            "kept": {number: as_columns(rows) for number, rows in loop.kept.items()},
            "arms": None if loop.arms is None else (loop.arms.ids, loop.arms.features),
            "features": None if self._records is None else self._records.map.to_json(),
        }
        plain = {name: getattr(loop, name) for name in Loop.PLAIN}
        text = saves_of(type(loop.policy)).text_of(content | plain | loop.progress.note())
        if loop.ledger is None:
            refuse_journal(file)
            files.write(file, text)
            return
        loop.journals.attach(file, loop.all_notes())
        files.write(file, text)
        loop.journals.saved(file)

    def _restore(self, file: Path, content: dict[str, Any]) -> None:
        """Become the agent that was saved."""
        loop, self._name, self._kept = self._loop, content["name"], True
        if content["features"] is not None:
            self._records = Records(Map.from_json(content["features"]), loop.policy)
        loop.secret = bytes.fromhex(content["secret"])
        notes: dict[str, Any] = {}
        if loop.ledger is None:
            refuse_journal(file)
        else:
            journals, notes = Journals.load(
                journal_of(file), agent=self._name, terms=self._terms(), secret=loop.secret, encoding=self._encoding
            )
            loop.policy = as_begun(loop.policy, [entry.event for entry in journals.entries()])
            loop.open_ledger(journals)
        resume(loop, content, notes)

    def _new_journals(self) -> Journals:
        """That know of no release."""
        terms, secret = self._terms(), self._loop.secret
        return Journals(agent=self._name, terms=terms, secret=secret, encoding=self._encoding)

    def _terms(self) -> Any:
        """What the journals are for."""
        loop, records = self._loop, self._records
        mapped = () if records is None else (records.map.to_json(),)
        arms = () if loop.arms is None else loop.arms.as_terms()
        return (loop.policy, *arms, *mapped) if arms or mapped else loop.policy

    def _can_be_saved(self) -> None:
        """A state that no save can hold is refused before anybody has decided: `save` would be too late."""
        try:
            self._encoding.encode(self._loop.progress.state)
        except InvalidArgument as fault:
            name, given = type(self.policy).__name__, fault.value
            allowed = f"{name}.init must say what it returns, `-> State`, a dataclass of numbers, texts and arrays"
            raise InvalidArgument("policy", f"a state with a {given}", f"{allowed} (docs/own-policy.md)") from None


def read_save(file: Path, saves: Saves, own: type[Policy[Any]] | None) -> dict[str, Any]:
    """What a save holds; `own`: the class of a policy of one's own."""
    try:
        return saves.read(file)
    except BandannaError as error:
        if own is None and "not the name of a known value" in str(error):
            raise BandannaError(f"{error}: of a policy of one's own load(..., policy=) takes the class") from error
        raise


def arguments_of(content: dict[str, Any], own: type[Policy[Any]] | None) -> dict[str, Any]:
    """The arguments of the agent that was saved, checked; its policy calibrated as it was."""
    check_save(content)
    made, seed = content["policy"], content["seed"]
    if own is not None and not isinstance(made, own):
        raise InvalidArgument("policy", own.__name__, f"{type(made).__name__}, whose save it is")
    recalibrate(made, content["calibrations"])
    arms = check_arms(content["arms"], made)
    return {"policy": made, "arms": arms, "grace": content["grace"], "test": seed is not None, "seed": seed}
