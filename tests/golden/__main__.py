"""`python -m tests.golden` computes the corpus anew, with other threads and kernels too, and rewrites its files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

THREADS = {"OMP_NUM_THREADS": "2"}
VARIATIONS = (  # where a processor lacks what is named, nothing changes
    THREADS,
    {"OPENBLAS_CORETYPE": "Haswell"},
    {"OPENBLAS_CORETYPE": "SkylakeX"},
    {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR"},
)


def compute(place: Path) -> None:
    from . import corpus, stored

    for group, entries in corpus.GROUPS.items():
        began = time.process_time()
        found = {key: corpus.computed(entry) for key, entry in entries().items()}
        stored.write(group, found, place)
        if place == stored.PLACE:
            refused = sum(entry == "refused" for entry in found.values())
            print(f"{group}: {len(found)} entries, {refused} refused, {time.process_time() - began:.1f} CPU seconds")


def main() -> None:
    """Rewrite all files; a change of numbers belongs to a commit of its own."""
    from . import corpus, stored

    compute(stored.PLACE)
    known: dict[str, Any] = {
        "kernels": stored.kernels(),
        "elsewhere another": {},
        "elsewhere rounded": {},
        "threads": {},
    }
    for variation in VARIATIONS:
        with tempfile.TemporaryDirectory() as place:
            changed = {**os.environ, **variation, "BANDANNA_CACHE": place}
            subprocess.run([sys.executable, "-m", "tests.golden", place], env=changed, check=True)
            for group in corpus.GROUPS:
                here, there = stored.read(group), json.loads((Path(place) / f"{group}.json").read_text("utf-8"))
                for key in here:
                    if here[key] == there[key]:
                        continue
                    far = any(stored.differences(there[key], here[key], place=key, tolerance=stored.TOLERANCE))
                    assert not (far and variation is THREADS), f"{group}: {key} depends on threads"
                    kind = "threads" if variation is THREADS else f"elsewhere {'another' if far else 'rounded'}"
                    known[kind].setdefault(group, set()).add(key)
    listed = {
        kind: {group: sorted(keys) for group, keys in found.items()} if isinstance(found, dict) else found
        for kind, found in known.items()
    }
    stored.write("processors", listed)
    print({kind: sum(map(len, found.values())) for kind, found in listed.items() if isinstance(found, dict)})


if __name__ == "__main__":
    if len(sys.argv) > 1:
        compute(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as cache:
            os.environ |= {"BANDANNA_CACHE": cache, "OMP_NUM_THREADS": "1"}
            main()
