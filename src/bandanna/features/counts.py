"""What a map had to do with records that were not as it was told: counted, by column, and said when it was most."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bandanna.errors import FeatureWarning

_FEW = 10  # rows of which nothing is said: the next ones may be as expected
_WORDS = {"outside": "out of their range", "unknown": "of unknown categories", "missing": "missing, or not readable"}


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Values of one column: out of the range, of a category that is not listed, missing (or of a type that says nothing
    there, as a text in a range).
    """

    outside: int = 0
    unknown: int = 0
    missing: int = 0

    def __add__(self, other: Counts) -> Counts:
        """Of both."""
        return Counts(
            outside=self.outside + other.outside,
            unknown=self.unknown + other.unknown,
            missing=self.missing + other.missing,
        )


@dataclass(frozen=True, kw_only=True)
class Report:
    """How many of `rows` were treated, by column, and how many vectors were `clipped` to the unit ball.

    Not protected: it is about people's own records. Do not publish it.
    """

    rows: int = 0
    columns: Mapping[str, Counts] = field(default_factory=dict)
    clipped: int = 0

    def __add__(self, other: Report) -> Report:
        """Of the rows of both, by the same map."""
        names = dict.fromkeys([*self.columns, *other.columns])
        nothing = Counts()
        columns = {name: self.columns.get(name, nothing) + other.columns.get(name, nothing) for name in names}
        return Report(rows=self.rows + other.rows, columns=columns, clipped=self.clipped + other.clipped)

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        columns = {name: dict(vars(counts)) for name, counts in self.columns.items()}
        return {"rows": self.rows, "columns": columns, "clipped": self.clipped}

    def __str__(self) -> str:
        said = [f"{self.rows:,} rows", f"{self.clipped:,} clipped to the unit ball"]
        for name, counts in self.columns.items():
            said += [f"{name}: {number:,} {_WORDS[kind]}" for kind, number in vars(counts).items() if number]
        return "; ".join(said)

    def warning(self) -> FeatureWarning | None:
        """What to say where most of the rows are not what the map expects; None unless they are, or are few."""
        if self.rows < _FEW:
            return None
        most = [f"{self.clipped:,} vectors clipped to the unit ball (a smaller Ball(scale=))"] * self._most(
            self.clipped
        )
        for name, counts in self.columns.items():
            most += [
                f"{number:,} values of {name!r} {_WORDS[kind]}"
                for kind, number in vars(counts).items()
                if self._most(number)
            ]
        if not most:
            return None
        return FeatureWarning(f"of {self.rows:,} rows, {'; '.join(most)}: what is learned is not what they say")

    def _most(self, number: int) -> bool:
        return 2 * number > self.rows
