"""Where a data set's file is: inside an installed package, which is not imported, or at a path of one's own.

A path may be the file itself, a folder somewhere below which it is, or the package as it is shipped: a wheel or another
zip, a source archive (.tar.gz), a Debian package (.deb).
"""

from __future__ import annotations

import importlib.util
import io
import tarfile
import zipfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import IO

from bandanna.core import require
from bandanna.errors import BandannaError

_MOST = 10**9  # bytes of a file that is read at once


def content_of(path: str | PathLike[str], inside: str) -> bytes:
    """The file that is called `inside`, a path whose end counts, of whatever stands at `path`."""
    place = require.path("path", path)
    try:
        if place.is_dir():
            return _in_folder(place, inside)
        with place.open("rb") as file:
            start = file.read(8)
            file.seek(0)
            return _in_archive(place, file, start, inside)
    except OSError as error:
        raise BandannaError(f"{place} cannot be read: {error.strerror or error}") from error
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, ValueError) as error:  # whose text may show what is there
        kind = type(error).__name__
    raise BandannaError(f"{place} is damaged, or no archive ({kind})")


def installed(package: str, inside: str) -> Path | None:
    """The file in an installed package; None where package or file are missing. Nothing of it is run."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    for folder in [] if spec is None else spec.submodule_search_locations or []:
        if (file := Path(folder, *PurePosixPath(inside).parts)).is_file():
            return file
    return None


def _in_folder(folder: Path, inside: str) -> bytes:
    """At that path below it, or anywhere below under its name, if there is one such file."""
    wanted = PurePosixPath(inside)
    if (file := folder.joinpath(*wanted.parts)).is_file():
        return file.read_bytes()
    found = [file for file in sorted(folder.rglob(wanted.name)) if _ends(file.as_posix(), wanted, exact=False)]
    if len(found) != 1:
        raise BandannaError(f"{folder} has {'no' if not found else 'more than one'} {inside}: name the file")
    return found[0].read_bytes()


def _in_archive(place: Path, file: IO[bytes], start: bytes, inside: str) -> bytes:
    if start.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(file) as archive:
            name = _chosen(place, archive.namelist(), inside)
            if archive.getinfo(name).file_size > _MOST:
                raise BandannaError(f"{name} in {place} is larger than any file that belongs here")
            return archive.read(name)
    if start.startswith(b"!<arch>\n"):
        parts = dict(_of_deb(file))
        whole = next((content for name, content in parts.items() if name.startswith("data.tar")), None)
        if whole is None:
            raise BandannaError(f"{place} is a Debian package without data")
        return _in_tar(place, io.BytesIO(whole), inside)
    if place.name.endswith((".tar.gz", ".tgz", ".tar")):
        return _in_tar(place, file, inside)
    return file.read()


def _in_tar(place: Path, file: IO[bytes], inside: str) -> bytes:
    with tarfile.open(fileobj=file) as archive:
        files = {member.name: member for member in archive if member.isfile()}
        member = files[_chosen(place, list(files), inside)]
        if member.size > _MOST or (opened := archive.extractfile(member)) is None:
            raise BandannaError(f"{member.name} in {place} is larger than any file that belongs here")
        return opened.read()


def _of_deb(file: IO[bytes]) -> Iterator[tuple[str, bytes]]:
    """The members of an `ar` archive: headers of 60 bytes, contents of an even length."""
    file.seek(8)
    while len(header := file.read(60)) == 60:
        size = int(header[48:58])
        content = file.read(size)
        file.seek(size % 2, io.SEEK_CUR)
        yield header[:16].decode("ascii", "replace").rstrip(" /"), content


def _chosen(place: Path, names: list[str], inside: str) -> str:
    found = [name for name in names if _ends(name, PurePosixPath(inside), exact=True)]
    if len(found) != 1:
        raise BandannaError(f"{place} has {'no' if not found else 'more than one'} {inside}: is it the right package?")
    return found[0]


def _ends(name: str, wanted: PurePosixPath, *, exact: bool) -> bool:
    parts, last = PurePosixPath(name).parts, wanted.parts
    return parts[-len(last) :] == last if exact else parts[-1:] == last[-1:]
