"""Every error that Bandanna raises on purpose: one family, each naming what was wrong and what is allowed."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

_LONGEST = 120  # characters of a value in a message


def shown(value: Any) -> str:
    """A value as messages show it: on one line, shortened, and whatever its own `repr` does."""
    try:
        plain = str(value) if isinstance(value, PurePath) else value
        text = " ".join(line.strip() for line in repr(plain).splitlines())
    except Exception:  # a foreign object may raise anything, a long integer ValueError
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 30]} ... ({len(text):,} characters)"


class BandannaError(Exception):
    """Base of all errors raised by Bandanna: the message is one line, whatever it quotes."""

    def __str__(self) -> str:
        return " ".join(line.strip() for line in super().__str__().splitlines())


class InvalidArgument(BandannaError, ValueError):
    """An argument has a value that is not allowed; the message names argument, value and what is allowed.

    `value` is the object as it was given; the message shows it on one line, shortened.
    """

    def __init__(self, argument: str, value: Any, allowed: str) -> None:
        self.argument = argument
        self.value = value
        self.allowed = allowed
        super().__init__(f"{argument} = {shown(value)} is not allowed: {allowed}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the three parts, so that the error survives a trip between processes."""
        return type(self), (self.argument, self.value, self.allowed)


class InvalidBudget(InvalidArgument):
    """A privacy budget is malformed, or of a kind that the mechanism cannot meet (delta = 0 for Gaussian noise)."""


class InvalidStatistic(InvalidArgument):
    """A user's statistic is not finite, of the wrong shape, or outside its declared domain."""


class OutsideTheorem(InvalidArgument):
    """`calibration="paper"` was asked for outside the range in which the paper's theorem holds."""


class CalibrationError(BandannaError):
    """No noise level in reach meets the target."""


class UnknownEvent(BandannaError, TypeError):
    """The accountant does not know the price of this event, and does not guess."""


class HorizonReached(InvalidArgument):
    """More decisions than the policy's horizon has; nothing was recorded, and recommendations go on."""


class BudgetExceeded(BandannaError):
    """The release would spend more than the ledger's budget; nothing was spent or released."""


class ConflictingRelease(BandannaError):
    """Other data (or another mechanism) was presented under an id that is already released."""


class Unreadable(BandannaError, ValueError):
    """What is stored is not a value that this program writes."""


class InsecureSource(BandannaError):
    """A noise source that may not be used here: seeded where people are protected, or unable to sample securely."""


class MissingExtra(BandannaError, ImportError):
    """An optional dependency is not installed; the message names the extra that brings it."""

    def __init__(self, extra: str, needed_for: str) -> None:
        self.extra = extra
        self.needed_for = needed_for
        super().__init__(f"{needed_for} needs an optional dependency: pip install 'bandanna[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the two parts."""
        return type(self), (self.extra, self.needed_for)


class ClippingWarning(UserWarning):
    """Most reports had to be clipped: what is learned is not what was sent."""

    @classmethod
    def of(cls, clipped: int, reports: int) -> ClippingWarning | None:
        """What to say of so many clipped reports; None unless they are most of them."""
        if 2 * clipped <= reports:
            return None
        return cls(
            f"{clipped:,} of {reports:,} reports had to be clipped, their features (norm 1, unless the policy allows "
            "more) or their rewards (into the policy's range): scale them first, or other numbers are learned from"
        )


class FeatureWarning(UserWarning):
    """Most records were not as a map of features expects them: clipped, unknown or missing."""


class SlowReleaseWarning(UserWarning):
    """A release is estimated to take more than a second, during which an agent answers nobody."""


class CommunicationWarning(UserWarning):
    """A protocol's messages are longer than the limit that was set."""
