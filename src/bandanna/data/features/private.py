"""Differentially private ranges of columns, for a feature map."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bandanna import validation
from bandanna.data.features.columns import CellCountDomain, RangeColumn, to_numbers
from bandanna.data.features.map import Range
from bandanna.data.tables import read_records
from bandanna.device.noise import NoiseSource, SecureNoise
from bandanna.errors import InvalidArgument, InvalidBudget, ValueSummary
from bandanna.privacy.events import Event
from bandanna.privacy.guarantee import Guarantee
from bandanna.privacy.ledger import Ledger
from bandanna.protocols.comparison import release_recorded
from bandanna.protocols.factory import protocol_for
from bandanna.protocols.privacy_model import Privacy
from bandanna.types import Floats, Ints
from bandanna.validation import check_memory

_MOST_BINS = 10_000


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """Released ranges, and their price.

    Parameters
    ----------
    range
        A part of a map.
    counts
        The noisy counts of the grid by column, (bins + 1,); the last counts missing values.
    std
        Standard deviation of the noise of a count.
    """

    range: Range
    counts: Mapping[str, Floats]
    std: float
    event: Event
    guarantee: Guarantee


def fit_privately(
    records: Any,
    columns: Mapping[str, Any],
    *,
    privacy: Privacy,
    quantiles: tuple[float, float] = (0.05, 0.95),
    bins: int = 64,
    outside: str = "clip",
    missing: str = "zero",
    source: NoiseSource | None = None,
    ledger: Ledger | None = None,
    task: str = "features",
) -> Fitted:
    """Release ranges between two quantiles of users' numbers with differential privacy; a row is a user.

    Parameters
    ----------
    records
        Records of any kind that a `Map` takes.
    columns : mapping
        Public limits by name: {"age": (0, 120)}.
    privacy : Privacy
        `bd.central(...)`, `bd.shuffle(...)` or `bd.local(...)` with a budget.
    quantiles : tuple of float
        The quantiles that become the ends of the range.
    bins : int
        Cells of the grid between the limits.
    outside, missing : str
        As for `Range`.
    source : NoiseSource, optional
        The operating system's secure source by default; `bd.device.FastNoise(rng)` for simulation.
    ledger, task
        Where the price is recorded, and under which name.

    Returns
    -------
    Fitted
        The ranges as a part of a map, and the guarantee.
    """
    if not isinstance(privacy, Privacy) or not privacy.noisy:
        hint = "A range that is found in users' records costs privacy."
        raise InvalidBudget(
            "privacy", getattr(privacy, "model", privacy), "a model such as bd.central(1.0, 1e-5)", hint
        )
    limits = Range(columns).columns
    low, high = (
        validation.unit_interval("quantiles", each)
        for each in validation.list_entries("quantiles", quantiles, "a pair of numbers")
    )
    if not low < high:
        raise InvalidArgument("quantiles", quantiles, "two increasing numbers in [0, 1]")
    bins = validation.integer("bins", bins, least=2, most=_MOST_BINS)
    table = read_records(records, [each.name for each in limits])
    domain = CellCountDomain(columns=len(limits), cells=bins + 1)
    check_memory("records", f"{table.rows:,} rows", 24 * table.rows * domain.dim, of="their reports")
    if not table.rows:
        raise InvalidArgument("records", ValueSummary("no rows"), "records of at least one user")
    places = np.stack([_cell_numbers(to_numbers(table.columns[each.name]), each, bins) for each in limits], axis=1)  # type: ignore[arg-type]
    protocol = protocol_for(privacy, domain, table.rows)
    own = SecureNoise() if source is None else source
    released = release_recorded(protocol, domain.statistic(places), own, ledger=ledger, task=task)
    counts = released.total.reshape(len(limits), bins + 1)
    ends = {
        each.name: _quantile_edges(row, each, table.rows, (low, high))  # type: ignore[arg-type]
        for each, row in zip(limits, counts, strict=True)
    }
    return Fitted(
        range=Range(ends, outside=outside, missing=missing),
        counts={each.name: row for each, row in zip(limits, counts, strict=True)},
        std=protocol.std(table.rows),
        event=protocol.event,
        guarantee=protocol.guarantee,
    )


def _cell_numbers(given: Floats, limits: RangeColumn, bins: int) -> Ints:
    """Return the cell of each number; numbers outside of the public limits count at their ends."""
    inside = np.clip(given, limits.low, limits.high)
    share = (np.where(np.isnan(inside), limits.low, inside) - limits.low) / (limits.high - limits.low)
    cells = np.minimum((share * bins).astype(np.int64), bins - 1)
    return np.where(np.isnan(given), bins, cells)


def _quantile_edges(
    counts: Floats, limits: RangeColumn, people: int, quantiles: tuple[float, float]
) -> tuple[float, float]:
    """Return the edges of the cells that contain the quantiles."""
    bins = len(counts) - 1
    balanced = counts - (counts.sum() - people) / len(counts)  # they add up to the people
    sums = np.cumsum(balanced[:-1])
    rising = (np.maximum.accumulate(sums) + np.minimum.accumulate(sums[::-1])[::-1]) / 2
    present = max(float(people - balanced[-1]), 1.0)
    first, last = (min(int(np.sum(rising < share * present)), bins - 1) for share in quantiles)
    width = (limits.high - limits.low) / bins
    return limits.low + first * width, min(limits.high, limits.low + (last + 1) * width)
