"""The parts of a task's document that a client reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bandanna.deployment.messages.canonical import decode_base64url, digest, loads
from bandanna.device.arm_sets import FixedArmSet
from bandanna.errors import BandannaError, Unreadable
from bandanna.storage.encoding import Encoding, matches_type

TASK_VERSION = 1
_FIELDS: dict[str, Any] = {
    "format": str, "version": int, "title": str, "mixers": int, "max_age": int, "urls": dict[str, str],
    "keys": dict[str, str], "seed": int | None, "test": bool, "promise": str, "arms": str | None,
    "device": dict[str, Any] | None,
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ClientTask:
    """A task as its document describes it, without its policy."""

    document: bytes
    content: Mapping[str, Any]

    @classmethod
    def from_bytes(cls, document: bytes, name: str | None = None) -> ClientTask:
        """Read a document, which must have this id where one is given; BandannaError for any other."""
        content = loads(document)
        if not isinstance(content, dict) or content.get("format") != "bandanna task":
            raise Unreadable("this is not the document of a task")
        if content.get("version") != TASK_VERSION:
            raise Unreadable(f"a task of version {content.get('version')}: this client knows version {TASK_VERSION}")
        wrong = next((each for each, hint in _FIELDS.items() if not matches_type(content.get(each), hint)), None)
        if wrong is not None:
            raise Unreadable(f"a task whose {wrong} is none")
        made = cls(document=document, content=content)
        if name is not None and made.id != name:
            raise BandannaError(f"a task {made.id} where {name} belongs")
        return made

    @classmethod
    def read(cls, path: str | Path, name: str | None = None) -> ClientTask:
        """Read a file, or the folder of `bandanna task create`; its id must be `name` where one is given."""
        place = Path(path)
        place = place / "task.json" if place.is_dir() else place
        try:
            return cls.from_bytes(place.read_bytes(), name)
        except OSError as error:
            raise BandannaError(f"{place} cannot be read: {error.strerror or error}") from error

    @cached_property
    def id(self) -> str:
        """base64url(SHA-256(document))."""
        return digest(self.document)

    @cached_property
    def digest(self) -> bytes:
        """The id as 32 bytes."""
        return decode_base64url(self.id, 32)

    @property
    def mixers(self) -> int:
        """The number of mixers between devices and analyzer."""
        return int(self.content["mixers"])

    @property
    def device(self) -> Mapping[str, Any] | None:
        """The section for clients without policies; None where they need the policy."""
        found: Mapping[str, Any] | None = self.content["device"]
        return found

    @cached_property
    def arms(self) -> FixedArmSet | None:
        """The arms that stay, or None."""
        if self.content["arms"] is None:
            return None
        ids, features, of_users = Encoding({}).loads(self.content["arms"])
        return FixedArmSet(ids=ids, features=features, of_users=of_users)

    def url(self, role: str) -> str:
        """Return the address of this task at a role."""
        where = self.content["urls"].get(role)
        if where is None:
            raise BandannaError(f"task {self.id[:12]} does not say where its {role} is")
        return f"{str(where).rstrip('/')}/tasks/{self.id}"

    @property
    def collector(self) -> str:
        """The address to which devices report."""
        return self.url("shuffler" if self.mixers else "analyzer")

    def key(self, name: str) -> str:
        """Return a public key of the task."""
        found = self.content["keys"].get(name)
        if found is None:
            raise BandannaError(f"task {self.id[:12]} has no key of its {name}")
        return str(found)
