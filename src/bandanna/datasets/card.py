"""What somebody should know of a data set before using it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Card:
    """A data set on a page; nothing here needs the data.

    kind          "log": one arm of each event was given, and its reward is known; "table": the rewards of all arms are
    rows          events or people, as loaded
    public        what the map of features takes for public, and where it comes from
    package       what brings the file, and under which licence; data: what is said of the data themselves
    get           how to get it, where it is not installed
    """

    name: str
    title: str
    kind: str
    rows: int
    arms: tuple[str, ...] | str
    reward: str
    propensities: str
    features: str
    public: str
    source: str
    package: str
    package_licence: str
    data_licence: str
    get: str
    people: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        plain = asdict(self)
        return {**plain, "arms": list(self.arms) if isinstance(self.arms, tuple) else self.arms}
