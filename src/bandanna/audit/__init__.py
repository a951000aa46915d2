"""Privacy audits: try to refute a claim, and say how close one came.

A verdict "refuted" is a proof, up to its confidence; "consistent" is not one (docs/how-to/audit.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandanna.audit.audit import audit, known_targets
from bandanna.audit.gallery import run_gallery
from bandanna.audit.sampled_bounds import Claim, make_claim, one_run_bound
from bandanna.audit.targets import AuditResult, AuditRow, Target, attacked

if TYPE_CHECKING:
    from bandanna.audit.live import audit_task as audit_task

__all__ = [
    "AuditResult",
    "AuditRow",
    "Claim",
    "Target",
    "attacked",
    "audit",
    "make_claim",
    "known_targets",
    "one_run_bound",
    "run_gallery",
]


def __getattr__(name: str) -> Any:
    """Load `audit_task` on first use: it needs the extra `serve`."""
    if name == "audit_task":
        from bandanna.audit import live

        return live.audit_task
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
