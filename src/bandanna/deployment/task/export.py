"""Publications exported and verified offline."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandanna.deployment.messages.canonical import dumps, loads, verify
from bandanna.deployment.messages.publication import PublicationPin, SignedPublication, chain_document, check_cosigned
from bandanna.deployment.task.document import AddressNotFound, Task, fetch_url, find_analyzer_url, find_task, is_url
from bandanna.errors import BandannaError, Unreadable
from bandanna.storage import files

# Publications, exported and verified


FOLDER = "publications"
_PARTS = {"document", "signature", "cosignature"}  # of a file
_NAME = re.compile(r"(\d{6,15})\.json")
_TRIES = 20  # how often a task may publish while its ledger is read


@dataclass(frozen=True, kw_only=True)
class ExportedPublication:
    """A publication with the signatures of analyzer and registrar."""

    content: dict[str, Any]
    signature: str
    cosignature: str

    @property
    def number(self) -> int:
        return int(self.content["number"])

    @property
    def chain(self) -> str:
        """The hash that the next publication names as `previous`."""
        return chain_document(str(self.content["previous"]), dumps(self.content))


@dataclass(frozen=True, kw_only=True)
class ExportResult:
    """The content of an export folder, and the number of new publications."""

    task: Task
    newest: ExportedPublication
    fresh: int
    ledger: dict[str, Any] | None


def check_publication(task: Task, shown: SignedPublication, number: int | None = None) -> ExportedPublication:
    """Return a publication of this number that analyzer and registrar have signed; else raise BandannaError."""
    document, signature, cosignature = shown
    if not verify(task.key("analyzer"), task.id, "publication", document, signature):
        raise BandannaError("a publication that the task's analyzer has not signed")
    content = loads(document)
    if not isinstance(content, dict) or content.get("task") != task.id:
        raise Unreadable("a publication of another task")
    if dumps(content) != document or type(content.get("number")) is not int or type(content.get("previous")) is not str:
        raise Unreadable("a publication that is not in canonical JSON, or has no place in the chain")
    made = ExportedPublication(content=content, signature=signature, cosignature=cosignature)
    check_cosigned(PublicationPin(made.number, made.chain), cosignature, task_id=task.id, key=task.key("registrar"))
    if number is not None and made.number != number:
        raise BandannaError(f"publication {made.number} where {number} belongs")
    return made


def fetch_newest(task: Task, base: str) -> ExportedPublication:
    """Return the publication in force at an analyzer's address."""
    return _fetch_publication(task, base, "snapshot", None)


def _fetch_publication(task: Task, base: str, what: str, number: int | None) -> ExportedPublication:
    document, headers = fetch_url(f"{base}/tasks/{task.id}/{what}")
    return check_publication(task, SignedPublication.of(document, headers), number)


def export_task(
    place: str, folder: Path, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> ExportResult:
    """Bring a folder up to date with the analyzer; existing files are checked and stay.

    task.json                   the document; its SHA-256 is the task's id
    publications/000007.json    {"document": ..., "signature": ..., "cosignature": ...}
    ledger.json                 what was spent, and for what, when the newest of them was in force
    """
    task = find_task(place)
    base = find_analyzer_url(task, place)
    _prepare_folder(task, folder)
    kept = _read_exported(task, folder)
    number, chain, last = len(kept), kept[-1].chain if kept else "", fetch_newest(task, base)
    _check_same_history(kept, last)
    for _ in range(_TRIES):
        while number <= last.number:
            one = last if number == last.number else _fetch_publication(task, base, f"snapshot/{number}", number)
            if one.content["previous"] != chain:
                raise BandannaError(f"publication {number} does not follow the one before it: another history")
            _write(folder, one)
            number, chain = number + 1, one.chain
            progress(number, last.number + 1)
        document = loads(fetch_url(f"{base}/tasks/{task.id}/ledger")[0])
        if not isinstance(document, dict) or document.get("task") != task.id or "ledger" not in document:
            raise Unreadable("the ledger is not that of the task")
        again = fetch_newest(task, base)
        if again.number == last.number:
            _check_same_history([last], again)
            ledger = document["ledger"]
            spent, signed = None if ledger is None else ledger.get("spent"), last.content.get("spent")
            if spent != signed:
                raise BandannaError(f"the ledger says that {spent} was spent, the signed publication {signed}")
            files.write_private_file(folder / "ledger.json", dumps(document).decode() + "\n")
            ledger = None if ledger is None else dict(ledger)
            return ExportResult(task=task, newest=last, fresh=number - len(kept), ledger=ledger)
        last = again
    raise BandannaError("the task publishes faster than its ledger can be read. Try again")


def verify_folder(folder: Path) -> tuple[Task, list[ExportedPublication]]:
    """Check every signature and the whole chain of an exported folder, without the network."""
    task = Task.read(folder)
    return task, _read_exported(task, folder)


def _prepare_folder(task: Task, folder: Path) -> None:
    try:
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BandannaError(f"{folder} cannot be written: {error.strerror or error}") from error
    file = folder / "task.json"
    if not file.exists():
        files.write_private_file(file, task.document.decode("ascii"))
    elif Task.read(file).id != task.id:
        raise BandannaError(f"{folder} holds another task. Use another folder")


def _read_exported(task: Task, folder: Path) -> list[ExportedPublication]:
    found = sorted(int(name[1]) for each in (folder / FOLDER).glob("*.json") if (name := _NAME.fullmatch(each.name)))
    made: list[ExportedPublication] = []
    for place, number in enumerate(found):
        file = _file(folder, number)
        try:
            plain = loads(files.read_private_file(file))
            if not isinstance(plain, dict) or set(plain) != _PARTS:
                raise Unreadable(f"other fields than {', '.join(sorted(_PARTS))}")
            shown = SignedPublication(dumps(plain["document"]), plain["signature"], plain["cosignature"])
            one = check_publication(task, shown, number)
        except BandannaError as error:
            raise BandannaError(f"{file} is not what the analyzer has published: {error}") from error
        if number != place or one.content["previous"] != (made[-1].chain if made else ""):
            raise BandannaError(f"{file} does not follow publication {place - 1}: one is missing before it")
        made.append(one)
    return made


def _check_same_history(kept: list[ExportedPublication], last: ExportedPublication) -> None:
    """Refuse an analyzer that has gone back, or serves another history."""
    if kept and last.number < kept[-1].number:
        raise BandannaError(f"the analyzer has gone back to publication {last.number}, from {kept[-1].number}")
    if kept and last.number == kept[-1].number and last.chain != kept[-1].chain:
        raise BandannaError(f"two publications of number {last.number}: the analyzer shows different histories")


def _file(folder: Path, number: int) -> Path:
    return folder / FOLDER / f"{number:06d}.json"


def _write(folder: Path, one: ExportedPublication) -> None:
    plain = {"document": one.content, "signature": one.signature, "cosignature": one.cosignature}
    files.write_private_file(_file(folder, one.number), dumps(plain).decode() + "\n")


# Progress


def fetch_progress(task: Task, place: str) -> dict[str, Any] | None:
    """Return status, publication, running batch and round, and spending; None if a place is no address."""
    if not is_url(place):
        return None
    base = place.rstrip("/")
    try:
        content = fetch_newest(task, base).content
    except AddressNotFound:
        return None
    except BandannaError as error:
        raise BandannaError(f"{base} does not report the progress of the task: {error}") from error
    names = ("status", "number", "epoch", "round", "spent")
    return {"publication" if name == "number" else name: content.get(name) for name in names}


def describe_progress(now: dict[str, Any]) -> str:
    """Return the progress in sentences."""
    spent = "No privacy is promised" if now["spent"] is None else f"Epsilon spent: {now['spent']:.4g}"
    releases = f"{now['publication']:,} release{'s' * (now['publication'] != 1)} published"
    batch = f"Collecting batch {now['epoch']}" + (f", round {now['round'] + 1}" if now["round"] else "")
    following = batch if now["status"] == "running" else "Nothing more is released"
    return f"{str(now['status']).capitalize()}. {releases}. {following}. {spent}."
