"""Private files are atomic, regular and readable by their owner only."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bandanna.errors import BandannaError
from bandanna.storage import files


def plant(path: Path, kind: str) -> None:
    (path.parent / "victim").write_text("precious")
    match kind:
        case "link":
            path.symlink_to(path.parent / "victim")
        case "dangling link":
            path.symlink_to(path.parent / "nowhere")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe", "folder"])
def test_links_pipes_and_folders_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "save"
    plant(path, kind)
    for use in (
        lambda: files.write_private_file(path, "secret"),
        lambda: files.read_private_file(path),
        lambda: files.secure_private_file(path),
    ):
        with pytest.raises(BandannaError, match=r"save is a .*: only a regular file"):
            use()
    assert (tmp_path / "victim").read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["save", "victim"]


@pytest.mark.parametrize("mode", [0o666, 0o640, 0o604])
def test_the_mode_of_a_file_is_repaired(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "save"
    for use in (files.read_private_file, files.secure_private_file):
        files.write_private_file(path, "secret")
        path.chmod(mode)
        use(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_of_another_user_that_others_can_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "save"
    files.write_private_file(path, "secret")
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert files.read_private_file(path) == b"secret"  # closed to others: its owner has let us in
    path.chmod(0o644)
    with pytest.raises(BandannaError, match="another user and has mode 0644"):
        files.read_private_file(path)


CHILD = """
import os, sys
from pathlib import Path
from bandanna.storage import files
os.fsync = lambda handle: os.kill(os.getpid(), 9)
files.write_private_file(Path(sys.argv[1]), "raw data")
"""


def test_leftovers_of_an_interrupted_write_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "save"
    subprocess.run([sys.executable, "-c", CHILD, str(path)], check=False)
    (rest,) = os.listdir(tmp_path)
    assert (tmp_path / rest).read_text() == "raw data"
    (tmp_path / ".save.txt").touch()
    (tmp_path / ".other.0123456789abcdef").touch()
    files.write_private_file(path, "new")
    assert sorted(os.listdir(tmp_path)) == [".other.0123456789abcdef", ".save.txt", "save"]
    subprocess.run([sys.executable, "-c", CHILD, str(path)], check=False)
    files.remove_leftovers(path)
    assert sorted(os.listdir(tmp_path)) == [".other.0123456789abcdef", ".save.txt", "save"]


def test_the_temporary_file_of_a_running_write_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, genuine = tmp_path / "save", os.fsync

    def meanwhile(handle: int) -> None:
        monkeypatch.setattr(os, "fsync", genuine)
        files.remove_leftovers(path)
        files.write_private_file(path, "second")
        genuine(handle)

    monkeypatch.setattr(os, "fsync", meanwhile)
    files.write_private_file(path, "first")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["save"]


def test_files_beyond_the_limit_are_neither_read_nor_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "save"
    monkeypatch.setattr(files, "LARGEST_FILE", 10)
    files.write_private_file(path, "0123456789")
    assert files.read_private_file(path) == b"0123456789"
    with pytest.raises(BandannaError, match="11 bytes"):
        files.write_private_file(path, "0123456789a")
    path.write_text("0123456789a")
    with pytest.raises(BandannaError, match="11 bytes"):
        files.read_private_file(path)
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BandannaError, match=f"{1 << 40} bytes"):
        files.read_private_file(tmp_path / "sparse")


@pytest.mark.parametrize("fault", [errno.EROFS, errno.EACCES])
def test_a_file_in_a_read_only_place_can_be_read(fault: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, genuine = tmp_path / "save", os.open
    files.write_private_file(path, "secret")

    def guarded(name: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(fault, os.strerror(fault))
        return genuine(name, flags, *rest, **named)

    monkeypatch.setattr(os, "open", guarded)
    monkeypatch.setattr(os, "access", lambda name, mode: not mode & os.W_OK)
    assert files.read_private_file(path) == b"secret"
    assert files.secure_private_file(path) is False
    with pytest.raises(BandannaError, match="cannot be written"):
        files.write_private_file(path, "other")
    assert path.read_bytes() == b"secret"


@pytest.mark.parametrize("renames_open", [True, False])
def test_a_file_is_closed_before_it_is_renamed_where_it_must_be(
    renames_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def replace(beside: Path, path: Path, real: Any = os.replace) -> None:
        opened = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
        seen.append(str(beside) in opened)
        real(beside, path)

    monkeypatch.setattr(files, "_RENAMES_OPEN", renames_open)
    monkeypatch.setattr(os, "replace", replace)
    files.write_private_file(tmp_path / "save", "secret")
    assert seen == [renames_open]
    assert (tmp_path / "save").read_text() == "secret"
