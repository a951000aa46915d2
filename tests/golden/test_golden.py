"""The golden corpus: numbers of every algorithm, protocol, price and estimate are those that are stored.

Files are rewritten by `python -m tests.golden`. A change of names or places needs no rewriting: adapt `library.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import corpus, library, stored


def parts() -> Iterator[tuple[str, str]]:
    """Groups of entries by the first words of their keys: one test for every algorithm or privacy."""
    for group, entries in corpus.GROUPS.items():
        for subject in dict.fromkeys(key.split(" | ")[0] for key in entries()):
            yield group, subject


@pytest.mark.parametrize(("group", "subject"), [*parts()])
def test_numbers_are_those_that_are_stored(group: str, subject: str) -> None:
    known, found = stored.read(group), []
    for key, entry in corpus.GROUPS[group]().items():
        tolerance = stored.tolerance(group, key)
        if key.split(" | ")[0] == subject and tolerance is not None:
            computed, there = {key: corpus.computed(entry)}, {key: known[key]} if key in known else {}
            found += stored.differences(computed, there, place=group, tolerance=tolerance)
    more = f"\n... and {len(found) - 12} more" if len(found) > 12 else ""
    assert not found, f"{len(found)} numbers differ:\n" + "\n".join(found[:12]) + more


@pytest.mark.parametrize("group", corpus.GROUPS)
def test_every_stored_entry_is_computed(group: str) -> None:
    assert stored.read(group).keys() == corpus.GROUPS[group]().keys()


def test_every_algorithm_is_in_the_corpus() -> None:
    assert set(corpus.ALGORITHMS) == set(library.ALGORITHMS)
