"""One release of a batch through a ledger, where there is one: then it is drawn once, and comes back when asked for."""

from __future__ import annotations

from bandanna.accounting.ledger import Ledger
from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.mechanisms.sources import NoiseSource
from bandanna.protocols.base import BatchProtocol


def release_recorded(
    protocol: BatchProtocol, statistic: Statistic, source: NoiseSource, *, ledger: Ledger | None, task: str
) -> Estimate:
    """The estimate of a batch; recorded under `task`, before it is drawn, where a ledger is given."""
    if ledger is None:
        return protocol.release(statistic, source)
    released: Estimate = ledger.release(
        protocol.event, task=task, batch=0, data=statistic, draw=lambda: protocol.release(statistic, source)
    )
    return released
