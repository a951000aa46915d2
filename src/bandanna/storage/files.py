"""Files that are written atomically: private files, results, and save files with a checksum."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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

LARGEST_FILE = 1 << 30  # bytes of the largest file that is written or read

_NO_LINKS = getattr(os, "O_NOFOLLOW", 0)
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # a named pipe would wait for a writer
_RENAMES_OPEN = os.name == "posix"  # elsewhere, an open file can be neither renamed nor removed
_FILE_TYPES = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe"}


def write_private_file(path: Path, text: str) -> None:
    """Write a private file atomically; a crash may leave temporary files to remove."""
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
                os.replace(beside, path)  # while it is locked
        if not _RENAMES_OPEN:
            os.replace(beside, path)
        _sync_folder(path.absolute().parent)
    except OSError as error:
        raise BandannaError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink()


def read_private_file(path: Path) -> bytes:
    """Return a regular file's contents after correcting its mode."""
    handle = _open_private(path)
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
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | _NO_LINKS, 0o600))


def secure_private_file(path: Path) -> bool:
    """Refuse a file that is not regular, correct its mode, and return whether it can be written in place.

    The file is opened only if its mode is wrong: closing any handle of a file releases all locks of the process on it
    (POSIX), and so another thread's transaction.
    """
    check_regular_file(path)
    if os.name == "posix" and stat.S_IMODE(os.lstat(path).st_mode) & 0o077:
        os.close(_open_private(path))
    return os.access(path, os.W_OK) and os.access(path.absolute().parent, os.W_OK)


def check_regular_file(path: Path) -> None:
    """Raise BandannaError if a path exists but is no regular file."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BandannaError(f"{path} cannot be used: {error.strerror or error}") from error
    _check_regular_mode(path, found.st_mode)


def _check_regular_mode(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _FILE_TYPES.get(stat.S_IFMT(mode), "a device or a socket")
        raise BandannaError(f"{path} is {kind}: only a regular file is read or replaced")


def remove_leftovers(path: Path) -> None:
    """Remove the temporary files of interrupted writes, which hold raw data."""
    temporary = re.compile(re.escape(f".{path.name}.") + "[0-9a-f]{16}")
    with suppress(OSError):
        for name in filter(temporary.fullmatch, os.listdir(path.absolute().parent)):
            with suppress(OSError):
                leftover = path.with_name(name)
                handle = os.open(leftover, os.O_RDONLY | _NO_LINKS | _NO_WAITING)
                try:
                    _lock_handle(handle)  # BlockingIOError: another process is writing it now
                    leftover.unlink()
                finally:
                    os.close(handle)


def _lock_handle(handle: int) -> None:
    """Lock an open file, so that it is no leftover; Windows removes no open file."""
    if sys.platform != "win32":
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _open_private(path: Path) -> int:
    """Return a handle to a regular file, made private."""
    check_regular_file(path)
    try:
        handle = os.open(path, os.O_RDONLY | _NO_LINKS | _NO_WAITING)
    except OSError as error:
        raise BandannaError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        found = os.fstat(handle)
        _check_regular_mode(path, found.st_mode)
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
        raise BandannaError(f"{path} belongs to another user and has mode {mode}: ask its owner for mode 0600")
    try:
        os.fchmod(handle, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS:  # on a read-only disk nothing can be repaired, and nothing is added
            text = f"{path} is open to others, and its mode cannot be changed: {error.strerror}"
            raise BandannaError(text) from error


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, if the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Results and figures


def replace_file(path: str | PathLike[str], write: Callable[[Path], object]) -> None:
    """Write a file atomically, readable by all users; for secrets use `write_private_file`.

    `write` gets the path of a temporary file in the same folder.
    """
    target = validation.path("path", path)
    beside = target.with_name(f".{target.name}-{secrets.token_hex(4)}.tmp")
    try:
        write(beside)
        os.replace(beside, target)
    except OSError as error:
        raise BandannaError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            beside.unlink()


# Save files


@dataclass(frozen=True, kw_only=True)
class SaveFormat:
    """Save files of one kind: a header line with a checksum, and a line of values.

    `noun` is what is saved, such as "agent", in the header and in errors.
    """

    noun: str
    version: int
    encoding: Encoding

    def text_of(self, content: dict[str, Any]) -> str:
        text = self.encoding.dumps(content)
        header = {"format": f"bandanna {self.noun}", "version": self.version, "sha256": _sha256(text)}
        return json.dumps(header) + "\n" + text + "\n"

    def read(self, path: Path) -> dict[str, Any]:
        """Return the content of a save file; refuse one that is damaged or of another kind."""
        remove_leftovers(path)
        try:
            first, _, rest = read_private_file(path).decode().partition("\n")
            header = json.loads(first)
            if not isinstance(header, dict) or header.get("format") != f"bandanna {self.noun}":
                raise ValueError("its first line is not the header of one")
        except (RecursionError, ValueError) as error:
            reason = str(error)
            if path.suffix == ".journal":
                reason = f"it is the journal of {path.with_suffix('')}"
            elif isinstance(error, UnicodeDecodeError):
                reason = "it is not a text file"
            elif isinstance(error, json.JSONDecodeError):
                reason = "its first line is not the header of one"
            raise_without_context(BandannaError(f"{path} is not a saved {self.noun}: {reason}"))
        if header.get("version") != self.version:
            version = repr(header.get("version"))[:40]
            raise BandannaError(f"{path} was saved in format {version}; this program reads format {self.version}")
        text = rest.partition("\n")[0]
        if _sha256(text) != header.get("sha256"):
            raise BandannaError(f"{path} is damaged: its checksum does not agree")
        try:
            content = self.encoding.loads(text)
        except BandannaError as error:
            raise BandannaError(f"{path} contains something unknown to this program: {error}") from error
        if not isinstance(content, dict):
            raise BandannaError(f"{path} contains a {type(content).__name__}, not a saved {self.noun}")
        return content

    @contextmanager
    def errors_of(self, path: Path) -> Iterator[None]:
        """Raise errors about a file's content as a BandannaError that names the file."""
        try:
            yield
        except BandannaError as error:
            if str(path) in str(error):
                raise
            raise Unreadable(f"{path} makes no {self.noun}: {error}") from error
        except Exception as error:
            reason = f"its parts do not fit together ({type(error).__name__})"
            raise_without_context(Unreadable(f"{path} makes no {self.noun}: {reason}"))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
