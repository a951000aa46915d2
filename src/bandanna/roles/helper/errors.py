"""Why a job is not done."""

from __future__ import annotations

from typing import Any

from bandanna.errors import BandannaError


class JobRefused(BandannaError):
    """With the status and the reason that the shuffler is answered, and what else it is told."""

    def __init__(self, status: int, reason: str, message: str, **details: Any) -> None:
        self.status, self.reason, self.details = status, reason, details
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the parts."""
        return _made, (self.status, self.reason, str(self), self.details)


def _made(status: int, reason: str, message: str, details: dict[str, Any]) -> JobRefused:
    return JobRefused(status, reason, message, **details)
