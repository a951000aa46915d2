"""The interface of a mechanism."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandanna.device.domain import read_numeric_array
from bandanna.device.noise import NoiseSource, read_protected_values
from bandanna.errors import InvalidStatistic, UnknownEvent, ValueSummary
from bandanna.privacy.events import Event

_Number = TypeVar("_Number", np.float64, np.int64)

_ROOM = 2**62  # integers below this take any noise that we add without leaving int64


class Mechanism(ABC):
    """Adds noise to a vector once, and states what that release is.

    `release` takes (..., dim) and returns the same shape, with fresh noise in every entry: leading axes are replicates
    of the whole release, and each replicate is one event. A mechanism states its event when it is built, so a mechanism
    with a malformed event cannot be built.
    """

    dim: int

    def __post_init__(self) -> None:
        if not isinstance(self.event, Event):  # stating the event checks every parameter
            raise UnknownEvent(f"{type(self).__name__}.event must be an Event: there is no noise without a price")

    @property
    @abstractmethod
    def event(self) -> Event:
        """What one release is, for the accountant."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the noise per coordinate."""

    @abstractmethod
    def release(self, value: ArrayLike, source: NoiseSource) -> NDArray[Any]:
        """Return the value, (..., dim), plus fresh noise from the source."""

    def reals(self, value: ArrayLike) -> NDArray[np.float64]:
        """Return the value as finite floats of shape (..., dim); refuse other values."""
        return self._shaped(read_protected_values(value))

    def integers(self, value: ArrayLike) -> NDArray[np.int64]:
        """Return the value as 64-bit integers of shape (..., dim); refuse other values."""
        array = read_numeric_array("value", value, "64-bit integers: round before the release", kinds="iu")
        if array.size and (array.max() >= _ROOM or array.min() <= -_ROOM):
            raise InvalidStatistic(
                "value", ValueSummary("an entry of size 2^62 or more"), "integers below 2^62 in size"
            )
        return self._shaped(array.astype(np.int64, copy=False))

    def _shaped(self, array: NDArray[_Number]) -> NDArray[_Number]:
        """Return the array, if its last axis has `dim` entries."""
        if array.ndim == 0 or array.shape[-1] != self.dim:
            raise InvalidStatistic("value", array, f"shape (..., {self.dim})")
        return array
