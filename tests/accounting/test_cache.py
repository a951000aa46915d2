"""The cache of search results: found again, never trusted, never in the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bandanna.accounting import cache
from bandanna.accounting.cache import directory, forget, remember


class Counted:
    """A search that counts how often it runs."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.runs = 0
        self.result = result

    def __call__(self) -> dict[str, Any]:
        """The same result every time."""
        self.runs += 1
        return self.result


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache on disk and in memory."""
    monkeypatch.setenv("BANDANNA_CACHE", str(tmp_path / "deep" / "cache"))
    forget()
    return tmp_path / "deep" / "cache"


def test_disk(place: Path) -> None:
    """A result is computed again although it was stored, or comes back with other bits."""
    search = Counted({"theta": [0.1 + 0.2, 1e-300, 1 / 3], "name": "x", "count": 10**18})
    first = remember("kind", {"n": 3, "x": 0.1}, search)
    assert remember("kind", {"x": 0.1, "n": 3}, search) == first == search.result
    forget()
    assert remember("kind", {"n": 3, "x": 0.1}, search) == first
    assert search.runs == 1
    assert [path.suffix for path in place.iterdir()] == [".json"]  # no temporary file is left


def test_keys(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two different questions share an answer, or an old version's answer is used."""
    search = Counted({"x": 1})
    for kind, key in [("a", {"n": 1}), ("b", {"n": 1}), ("a", {"n": 2}), ("a", {"m": 1}), ("a", {"n": "1"})]:
        remember(kind, key, search)
    assert search.runs == 5
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    remember("a", {"n": 1}, search)
    assert search.runs == 6


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[]", b'{"result": {}}', b'{"identity": 1, "result": {}}']
)
def test_corrupt(place: Path, content: bytes) -> None:
    """A damaged file is used, raises, or stays damaged."""
    search = Counted({"x": 1})
    remember("kind", {"n": 1}, search)
    (file,) = place.iterdir()
    file.write_bytes(content)
    forget()
    assert remember("kind", {"n": 1}, search) == {"x": 1}
    assert search.runs == 2
    assert json.loads(file.read_text())["result"] == {"x": 1}


def test_other_identity(place: Path) -> None:
    """A file renamed onto another key's name answers for that key."""
    remember("kind", {"n": 1}, Counted({"x": 1}))
    (file,) = place.iterdir()
    content = file.read_bytes()
    file.unlink()
    forget()
    remember("kind", {"n": 2}, Counted({"x": 2}))
    (other,) = place.iterdir()
    other.write_bytes(content)
    forget()
    assert remember("kind", {"n": 2}, Counted({"x": 2})) == {"x": 2}


def test_invalid(place: Path) -> None:
    """A stored result that its owner rejects, or cannot even judge, is used."""
    remember("kind", {"n": 1}, Counted({"x": -1}))
    forget()
    assert remember("kind", {"n": 1}, Counted({"x": 1}), valid=lambda result: result["x"] > 0) == {"x": 1}
    forget()
    assert remember("kind", {"n": 1}, Counted({"y": 1}), valid=lambda result: result["y"] > 0) == {"y": 1}


def test_unwritable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that cannot be written (its directory is a file, its target a directory) stops the calibration."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("BANDANNA_CACHE", str(blocked / "cache"))
    forget()
    assert remember("kind", {"n": 1}, Counted({"x": 1})) == {"x": 1}
    monkeypatch.setenv("BANDANNA_CACHE", str(tmp_path / "good"))
    remember("kind", {"n": 1}, Counted({"x": 1}))
    (file,) = (tmp_path / "good").iterdir()
    file.unlink()
    file.mkdir()
    forget()
    assert remember("kind", {"n": 1}, Counted({"x": 2})) == {"x": 2}
    assert list((tmp_path / "good").iterdir()) == [file]  # the temporary file is gone


def test_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BANDANNA_CACHE="" still writes, or loses the memory of this process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BANDANNA_CACHE", "")
    forget()
    search = Counted({"x": 1})
    assert directory() is None
    assert remember("kind", {"n": 1}, search) == remember("kind", {"n": 1}, search)
    assert search.runs == 1
    assert not list(tmp_path.iterdir())


def test_own_copy(place: Path) -> None:
    """A caller that changes its result changes everybody's."""
    search = Counted({"x": [1]})
    remember("kind", {"n": 1}, search)["x"].append(2)
    assert remember("kind", {"n": 1}, search) == {"x": [1]}


def test_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is not where the documentation says."""
    monkeypatch.setenv("BANDANNA_CACHE", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert directory() == tmp_path
    monkeypatch.delenv("BANDANNA_CACHE")
    assert directory() == tmp_path / "xdg" / "bandanna"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert directory() == tmp_path / "home" / ".cache" / "bandanna"

    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(Path, "home", homeless)
    assert directory() is None
