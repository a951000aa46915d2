"""The save: one file of JSON, whole or not there, readable by its owner only. It holds raw rewards and secrets."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

from bandanna.agent.kinds import ENCODING
from bandanna.errors import BandannaError

FORMAT, VERSION = "bandanna agent", 1


def text_of(content: dict[str, Any]) -> str:
    """A line that says what the file is, with a checksum, and a line with the content."""
    text = ENCODING.dumps(content)
    header = {"format": FORMAT, "version": VERSION, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    return json.dumps(header) + "\n" + text + "\n"


def write(path: Path, text: str) -> None:
    """Write beside the target, sync, rename: a crash leaves the old file or the new one."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync_folder(path.absolute().parent)
    except OSError as error:
        raise BandannaError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def read(path: Path) -> dict[str, Any]:
    """What was written; a damaged or foreign file is refused."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise BandannaError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise BandannaError(f"{path} is not a save of an agent") from error
    try:
        header = json.loads(lines[0])
        if header["format"] != FORMAT:
            raise ValueError(f"its format is {header['format']!r}")
    except (LookupError, TypeError, ValueError) as error:
        raise BandannaError(f"{path} is not a save of an agent: {error}") from error
    if header.get("version") != VERSION:
        raise BandannaError(f"{path} is a save of version {header.get('version')!r}; this program reads {VERSION}")
    text = lines[1] if len(lines) > 1 else ""
    if hashlib.sha256(text.encode()).hexdigest() != header.get("sha256"):
        raise BandannaError(f"{path} is damaged: its checksum does not agree")
    try:
        return dict(ENCODING.loads(text))
    except (LookupError, TypeError, ValueError) as error:
        raise BandannaError(f"{path} holds something that this program does not know: {error}") from error


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
