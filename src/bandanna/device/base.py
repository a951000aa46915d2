"""The interface of a device's randomizer."""

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

    Each call draws a new message, which is a new release. A repeated transmission must send the first message's bytes.

    Parameters
    ----------
    domain
        Public bounded set of the statistics. Its diameter is the sensitivity that the noise must cover.
    """

    domain: Domain

    def message(self, statistic: Statistic, source: NoiseSource) -> Messages:
        """Return one row of numbers for every user: (..., users, dim) -> (..., users, length)."""
        return self.encode(self.domain.check_statistic(statistic).rows(), check_noise_source(source))

    def report(self, statistic: Statistic, source: NoiseSource) -> Messages:
        """Return the message about a statistic that a policy has formed, clipped again."""
        if statistic.domain != self.domain:
            raise InvalidStatistic("statistics", ValueSummary(f"of {statistic.domain}"), f"statistics of {self.domain}")
        return self.message(self.domain.clip_outside(statistic.rows()), source)

    def zero(self, source: NoiseSource) -> Messages:
        """Return the message of a user without an answer, (1, length): the domain's point nearest to 0, noised."""
        return self.message(self.domain.nothing, source)

    @abstractmethod
    def encode(self, values: Floats, source: NoiseSource) -> Messages:
        """Return messages about points of the domain, (..., users, dim)."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Return public plain values for JSON, from which `device_from_parameters` rebuilds the device."""
        return dict(to_plain_value(self))


def to_plain_value(value: Any) -> Any:
    """Return frozen values as dictionaries with their kind's stored name, and tuples as lists."""
    if is_dataclass(value):
        parts = {each.name: to_plain_value(getattr(value, each.name)) for each in fields(value) if each.init}
        return {"kind": find_stored_name(type(value)), **parts}
    return [to_plain_value(part) for part in value] if isinstance(value, tuple) else value
