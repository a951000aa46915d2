"""What became of every mutant, kept between runs; and which survivors are allowed, with their reasons."""

from __future__ import annotations

import hashlib
import json
import tomllib
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mutants.running import SURVIVED, UNREACHED
from mutants.sites import Mutant

SURVIVORS = Path(__file__).with_name("survivors.toml")
ALIVE = (SURVIVED, UNREACHED)


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """A mutant that may survive: no test can tell it from the code, or none should."""

    path: str
    where: str
    mutant: str  # before -> after, with #number if there are several
    reason: str

    def is_of(self, mutant: Mutant) -> bool:
        """Whether it is this one."""
        place = f" #{mutant.number}" if mutant.number else ""
        its = (mutant.path, mutant.where, f"{mutant.before} -> {mutant.after}{place}")
        return its == (self.path, self.where, self.mutant)


def allowed(file: Path = SURVIVORS) -> list[Allowed]:
    """All of the file."""
    return [
        Allowed(path=entry["path"], where=entry["where"], mutant=mutant, reason=entry["reason"])
        for entry in tomllib.loads(file.read_text()).get("survivor", [])
        for mutant in entry["mutants"]
    ]


@dataclass(kw_only=True)
class Verdicts:
    """By the mutant's name and the text of its file: a file that has changed is tried anew."""

    file: Path
    found: dict[str, dict[str, object]] = field(default_factory=dict)

    @classmethod
    def load(cls, file: Path) -> Verdicts:
        """What is known from earlier runs."""
        return cls(file=file, found=json.loads(file.read_text()) if file.exists() else {})

    def of(self, mutant: Mutant, text: str) -> str | None:
        """What became of it, if it was tried in this text of the file; survivors are tried again, with newer tests."""
        last = self.last(mutant, text)
        return None if last in ALIVE else last

    def last(self, mutant: Mutant, text: str) -> str | None:
        """What became of it when it was last tried in this text of the file."""
        held = self.found.get(mutant.name)
        return str(held["verdict"]) if held is not None and held["text"] == digest(text) else None

    def note(self, mutant: Mutant, text: str, verdict: str, test: str = "") -> None:
        """With the test that saw it; written at once: a run that is stopped goes on where it was."""
        self.found[mutant.name] = {**asdict(mutant), "text": digest(text), "verdict": verdict, "test": test}
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.found, indent=1))
        new.replace(self.file)


def digest(text: str) -> str:
    """Of a file's text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
