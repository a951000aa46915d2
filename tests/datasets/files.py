"""Small files in the form of the data sets, with invented rows: the tests need none of the packages."""

from __future__ import annotations

import csv
import io
import json
import tarfile
import zipfile
from pathlib import Path

import numpy as np

BASELINE = ("age", "wtkg", "hemo", "homo", "drugs", "karnof", "race", "gender", "str2", "symptom", "cd40", "cd80")
MODELS = ("meta-llama/llama-3.1-8b-instruct", "mistralai/mistral-large-2512", "google/gemini-2.5-pro")


def table(header: tuple[str, ...], rows: list[list[object]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([header, *rows])
    return text.getvalue()


def actg(rows: int = 400, seed: int = 0) -> str:
    rng = np.random.default_rng(seed)
    made: list[list[object]] = []
    for number in range(rows):
        arm, before = int(rng.integers(4)), int(rng.integers(150, 600))
        after = before + (1 if rng.random() < (0.2, 0.9, 0.4, 0.4)[arm] else -1)
        made.append([number, *([40] * 10), before, 900, after, "NA", arm])
    return table(("", *BASELINE, "cd420", "cd496", "arms"), made)


def thornton() -> str:
    people: list[list[object]] = [[1, 1, 0.0, 2.0, 30], [2, 0, 0.5, 1.0, 40], [3, 1, 2.9, 0.5, "NA"]]
    people += [[i, i % 2, (0.0, 0.9, 1.9, 2.8)[i % 4], 1.5, 20 + i] for i in range(4, 40)]
    return table(("rownames", "got", "tinc", "distvct", "age"), people)


def obd() -> str:
    rows: list[list[object]] = [
        [i, i % 34, i % 3, int(i % 50 == 0), 1 / 34, "a", "b", f"c{i % 5}", "d"] for i in range(200)
    ]
    users = tuple(f"user_feature_{i}" for i in range(4))
    return table(("", "item_id", "position", "click", "propensity_score", *users), rows)


def routing(rows: int = 30) -> str:
    lines = [
        {
            "prompt": f"what is {i}\u2028?",
            "arms": {model: {"reward": r} for model, r in zip(MODELS, (0.0, 1.0, 0.9), strict=True)},
        }
        for i in range(rows)
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def shuttle(rows: int = 70) -> str:
    states = ("Rad.Flow", "Fpv.Close", "Fpv.Open", "High", "Bypass", "Bpv.Close", "Bpv.Open")
    made: list[list[object]] = [[*range(i, i + 9), states[i % 7]] for i in range(rows)]
    return table((*(f"V{i}" for i in range(1, 10)), "Class"), made)


def wheel(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def tarred(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def debian(path: Path, files: dict[str, str]) -> Path:
    """A Debian package: an `ar` archive with data in a tar archive."""
    inner = tarred(path.with_suffix(".tar.gz"), files).read_bytes()
    parts = [("debian-binary", b"2.0\n"), ("data.tar.gz", inner)]
    with path.open("wb") as file:
        file.write(b"!<arch>\n")
        for name, content in parts:
            file.write(f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode())
            file.write(content + b"\n" * (len(content) % 2))
    return path
