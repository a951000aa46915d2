"""Saves: one file with a line that says what it is, with a checksum, and a line of values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandanna.errors import BandannaError, Unreadable, raise_alone
from bandanna.storage import files
from bandanna.storage.encoding import Encoding


@dataclass(frozen=True, kw_only=True)
class Saves:
    """Saves of one kind of thing: `noun` names it in errors, and with `version` in the file."""

    noun: str  # "agent"
    version: int
    encoding: Encoding

    def text_of(self, content: dict[str, Any]) -> str:
        """A line that says what the file is, with a checksum, and a line with the content."""
        text = self.encoding.dumps(content)
        header = {"format": f"bandanna {self.noun}", "version": self.version, "sha256": _sha256(text)}
        return json.dumps(header) + "\n" + text + "\n"

    def read(self, path: Path) -> dict[str, Any]:
        """What was written; a damaged or foreign file is refused."""
        files.sweep(path)
        try:
            first, _, rest = files.read(path).decode().partition("\n")
            header = json.loads(first)
            if not isinstance(header, dict) or header.get("format") != f"bandanna {self.noun}":
                raise ValueError("its first line says something else")
        except (RecursionError, ValueError) as error:
            told = f"it is the journal of {path.with_suffix('')}" if path.suffix == ".journal" else _told(error)
            raise_alone(BandannaError(f"{path} is not a save of {_article(self.noun)}: {told}"))
        if header.get("version") != self.version:
            told = repr(header.get("version"))[:40]
            raise BandannaError(f"{path} is a save of version {told}; this program reads {self.version}")
        text = rest.partition("\n")[0]
        if _sha256(text) != header.get("sha256"):
            raise BandannaError(f"{path} is damaged: its checksum does not agree")
        try:
            content = self.encoding.loads(text)
        except BandannaError as error:
            raise BandannaError(f"{path} holds something that this program does not know: {error}") from error
        if not isinstance(content, dict):
            raise BandannaError(f"{path} holds a {type(content).__name__}, not a save of {_article(self.noun)}")
        return content

    @contextmanager
    def errors_of(self, path: Path) -> Iterator[None]:
        """Whatever is wrong with what a file holds, the error is ours and names the file."""
        try:
            yield
        except BandannaError as error:
            if str(path) in str(error):
                raise
            raise Unreadable(f"{path} makes no {self.noun}: {error}") from error
        except Exception as error:
            told = f"its parts do not fit together ({type(error).__name__})"
            raise_alone(Unreadable(f"{path} makes no {self.noun}: {told}"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _told(error: Exception) -> str:
    """Why a first line cannot be read, without words of Python."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    return "its first line says something else" if isinstance(error, json.JSONDecodeError) else str(error)


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
