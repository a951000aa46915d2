"""Files that are written completely or not at all: private files, results, and save files with a checksum."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from bandanna import validation
from bandanna.errors import BandannaError, Unreadable, raise_without_context
from bandanna.storage.encoding import Encoding

# Private files


if sys.platform != "win32":
    import fcntl

LARGEST_FILE = 1 << 30  # bytes: no file that we write is larger, and no larger one is read

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # a named pipe would wait for a writer
_RENAMES_OPEN = os.name == "posix"  # elsewhere, an open file can be neither renamed nor removed


def write_private_file(path: Path, text: str) -> None:
    """Write a private file atomically: a crash leaves the old or the new file, and perhaps leftovers to remove."""
    content = text.encode()
    if len(content) > LARGEST_FILE:
        raise BandannaError(f"{path} would have {len(content)} bytes; allowed are at most {LARGEST_FILE}")
    check_regular_file(path)
    remove_leftovers(path)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NO_LINKS, 0o600)
        with open(handle, "wb") as file:
            _lock_handle(file.fileno())
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if _RENAMES_OPEN:
                os.replace(beside, path)  # while it is claimed
        if not _RENAMES_OPEN:
            os.replace(beside, path)
        _sync_folder(path.absolute().parent)
    except OSError as error:
        raise BandannaError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def read_private_file(path: Path) -> bytes:
    """Return the contents of a regular file, after its mode was corrected."""
    handle = _open_private(path, os.O_RDONLY)
    with open(handle, "rb") as file:
        try:
            size = os.fstat(handle).st_size
            if size > LARGEST_FILE:
                raise BandannaError(f"{path} has {size} bytes; allowed are at most {LARGEST_FILE}")
            return file.read(size)
        except OSError as error:
            raise BandannaError(f"{path} cannot be read: {error.strerror or error}") from error


def create_private_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NO_LINKS, 0o600))


def secure_private_file(path: Path) -> bool:
    """Refuse a file that is not regular, correct its mode, and return whether it can be written in place.

    It is not opened unless its mode is wrong: when a process closes any handle of a file, it loses all its locks on the
    file (POSIX), and a transaction of another thread would lose its own.
    """
    check_regular_file(path)
    if os.name == "posix" and stat.S_IMODE(os.lstat(path).st_mode) & 0o077:
        os.close(_open_private(path, os.O_RDONLY))
    return os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)


def check_regular_file(path: Path) -> None:
    """Refuse to replace a link, folder, pipe or device."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BandannaError(f"{path} cannot be used: {error.strerror or error}") from error
    if not stat.S_ISREG(found.st_mode):
        raise BandannaError(f"{path} is {_describe_file_type(found.st_mode)}: only a regular file is read or replaced")


def remove_leftovers(path: Path) -> None:
    """Remove what interrupted writes of `path` left beside it: it holds raw data."""
    rest = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}")
    with contextlib.suppress(OSError):
        for name in os.listdir(path.absolute().parent):
            if rest.fullmatch(name):
                _remove_unless_locked(path.with_name(name))


def _remove_unless_locked(rest: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(rest, os.O_RDONLY | _NO_LINKS | _NO_WAITING)
        try:
            _lock_handle(handle)  # BlockingIOError: somebody is writing it now
            rest.unlink()
        finally:
            os.close(handle)


def _lock_handle(handle: int) -> None:
    """Lock the file: while it is open, it is no leftover. On other systems, an open file cannot be removed anyway."""
    if sys.platform != "win32":
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _open_private(path: Path, how: int) -> int:
    """Return a handle of a regular file that only its owner can read from now on."""
    check_regular_file(path)
    try:
        handle = os.open(path, how | _NO_LINKS | _NO_WAITING)
    except OSError as error:
        raise BandannaError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise BandannaError(
                f"{path} is {_describe_file_type(found.st_mode)}: only a regular file is read or replaced"
            )
        _restrict_mode(path, handle, found)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _restrict_mode(path: Path, handle: int, found: os.stat_result) -> None:
    if os.name != "posix" or not stat.S_IMODE(found.st_mode) & 0o077:
        return
    if found.st_uid != os.geteuid():
        mode = f"{stat.S_IMODE(found.st_mode):04o}"
        raise BandannaError(f"{path} belongs to another user and has mode {mode}; allowed is 0600: others may see it")
    try:
        os.fchmod(handle, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:  # in a read-only place nothing can be repaired, and nothing is added
            raise BandannaError(
                f"{path} is open to others, and its mode cannot be changed: {error.strerror}"
            ) from error


def _describe_file_type(mode: int) -> str:
    kinds = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe"}
    return kinds.get(stat.S_IFMT(mode), "a device or a socket")


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, if the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Results and figures


def replace_file(path: str | PathLike[str], write: Callable[[Path], object]) -> None:
    """Write a file beside the target and rename it. Everybody may read it; for secrets use `write_private_file`."""
    target = validation.path("path", path)
    beside = target.with_name(f".{target.name}-{secrets.token_hex(4)}.tmp")
    try:
        write(beside)
        os.replace(beside, target)
    except OSError as error:
        raise BandannaError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


# Save files


@dataclass(frozen=True, kw_only=True)
class SaveFormat:
    """Save files of one kind: a header line with a checksum, and a line of values.

    `noun` names the kind in errors, and with `version` in the file.
    """

    noun: str  # "agent"
    version: int
    encoding: Encoding

    def text_of(self, content: dict[str, Any]) -> str:
        """Return a header line with a checksum, and a line with the content."""
        text = self.encoding.dumps(content)
        header = {"format": f"bandanna {self.noun}", "version": self.version, "sha256": _sha256(text)}
        return json.dumps(header) + "\n" + text + "\n"

    def read(self, path: Path) -> dict[str, Any]:
        """Return the content; refuse a damaged or foreign file."""
        remove_leftovers(path)
        try:
            first, _, rest = read_private_file(path).decode().partition("\n")
            header = json.loads(first)
            if not isinstance(header, dict) or header.get("format") != f"bandanna {self.noun}":
                raise ValueError("its first line says something else")
        except (RecursionError, ValueError) as error:
            told = (
                f"it is the journal of {path.with_suffix('')}"
                if path.suffix == ".journal"
                else _describe_header_error(error)
            )
            raise_without_context(BandannaError(f"{path} is not a save of {_article(self.noun)}: {told}"))
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
        """Turn any error about a file's content into ours, which names the file."""
        try:
            yield
        except BandannaError as error:
            if str(path) in str(error):
                raise
            raise Unreadable(f"{path} makes no {self.noun}: {error}") from error
        except Exception as error:
            told = f"its parts do not fit together ({type(error).__name__})"
            raise_without_context(Unreadable(f"{path} makes no {self.noun}: {told}"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _describe_header_error(error: Exception) -> str:
    """Say why a header line cannot be read, without words of Python."""
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    return "its first line says something else" if isinstance(error, json.JSONDecodeError) else str(error)


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
