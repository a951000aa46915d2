"""Points of a history for drawing: never more than so many, evenly spaced, whatever the length of the history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bandanna.dashboard.readings import Reading

MOST = 256  # points


@dataclass(frozen=True, kw_only=True)
class Point:
    """What was kept of one publication."""

    number: int
    epoch: int
    chain: str
    previous: str
    spent: float | None
    reading: Reading


class Series:
    """Publications 0, s, 2s, ... with s a power of two, and the newest: which ones depends on their number alone."""

    def __init__(self) -> None:
        self._kept: dict[int, Point] = {}
        self._stride = 1

    def missing(self, newest: int) -> Iterator[int]:
        """Numbers that have to be read so that it reaches to the newest, in order, without that one."""
        while newest // self._stride >= MOST:
            self._stride *= 2
        self._thin(newest)
        return (number for number in range(0, newest, self._stride) if number not in self._kept)

    def put(self, point: Point) -> None:
        """One more, or the same once more."""
        self._kept[point.number] = point
        while max(self._kept) // self._stride >= MOST:
            self._stride *= 2
        self._thin(max(self._kept))

    def _thin(self, newest: int) -> None:
        for number in [each for each in self._kept if each % self._stride and each != newest]:
            del self._kept[number]

    @property
    def points(self) -> tuple[Point, ...]:
        """In order."""
        return tuple(self._kept[number] for number in sorted(self._kept))

    def link(self, number: int) -> Point | None:
        """The point of a number, where it was kept."""
        return self._kept.get(number)
