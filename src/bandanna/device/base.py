"""The interface of a device's randomizer, and the messages that it sends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from numpy.typing import NDArray

from bandanna.device.domain import Domain, Statistic
from bandanna.device.noise import NoiseSource, check_noise_source
from bandanna.errors import InvalidStatistic, ValueSummary
from bandanna.storage.encoding import find_stored_name
from bandanna.types import Floats

Messages = NDArray[Any]  # (..., users, length) of int64; of float64 where a fast source draws real-valued noise


@dataclass(frozen=True, kw_only=True)
class Device(ABC):
    """The randomizer of statistics in `domain`.

    Privacy: a message is drawn anew at every call, with coins of its own. Whoever sees two messages about one statistic
    has seen two releases: a device sends the bytes of the first again, never a second draw.
    """

    domain: Domain

    def message(self, statistic: Statistic, source: NoiseSource) -> Messages:
        """One row of numbers for every user: (..., users, dim) -> (..., users, length)."""
        return self.encode(self.domain.check_statistic(statistic).rows(), check_noise_source(source))

    def report(self, statistic: Statistic, source: NoiseSource) -> Messages:
        """As `message`, of a statistic that a policy has formed: the device clips it, whoever says that it did."""
        if statistic.domain != self.domain:
            raise InvalidStatistic("statistics", ValueSummary(f"of {statistic.domain}"), f"statistics of {self.domain}")
        return self.message(self.domain.clip_outside(statistic.rows()), source)

    def zero(self, source: NoiseSource) -> Messages:
        """The message of a user who did not answer, (1, length): the domain's point nearest to 0, noised in full."""
        return self.message(self.domain.nothing, source)

    @abstractmethod
    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        """Messages about points of the domain, (..., users, dim)."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Everything that makes this device, as plain values for JSON: public, and enough for
        `device_from_parameters`.
        """
        return dict(to_plain_value(self))


def to_plain_value(value: Any) -> Any:
    """Frozen values as dictionaries with their kind's stored name, tuples as lists, numbers as they are."""
    if is_dataclass(value):
        parts = {each.name: to_plain_value(getattr(value, each.name)) for each in fields(value) if each.init}
        return {"kind": find_stored_name(type(value)), **parts}
    return [to_plain_value(part) for part in value] if isinstance(value, tuple) else value
