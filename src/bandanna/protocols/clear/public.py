"""Sums of what is public: nobody's secret is in them, and they cost nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bandanna.accounting.events import NothingEvent
from bandanna.protocols.clear import Clear
from bandanna.storage.declared import stored_as


@stored_as("PublicSum")
@dataclass(frozen=True, kw_only=True)
class PublicSum(Clear):
    """Plain sums of statistics that whoever asks has declared public, such as features of arms that everybody sees.

    Privacy: nothing is released that was not known; the event is nothing. That the statistics are public is a promise
    of the policy, not a finding: it must make them of public numbers alone, refuse to run where its users have not
    said so, and name them among what everybody sees.
    """

    name: ClassVar[str] = "public_sum"

    @property
    def event(self) -> NothingEvent:
        """Nothing about anybody."""
        return NothingEvent()

    @property
    def observers(self) -> tuple[tuple[str, str], ...]:
        """It is public."""
        return (("everybody", "the sum, and every statistic in it"),)
