"""The privacy card of a task: one document for the people who decide about it."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bandanna.deployment.task.description import task_facts
from bandanna.deployment.task.document import Task
from bandanna.deployment.task.query_plan import sends_rows
from bandanna.privacy.guarantee import format_rounded_up

FORMAT = "bandanna privacy card 1"
RETENTION = {
    "device": "Unsent reports stay in the client's outbox until they are acknowledged.",
    "network": "Not under control of the task.",
    "registrar": "The batches and slots of each user, by a keyed hash of the user's id. Publications and cosignatures.",
    "shuffler": "Reports until the batch's receipt, then a fingerprint of each slot.",
    "helper": "The sum of its halves of a batch's reports, and the slots of running batches.",
    "analyzer": "Released sums, publications and the ledger. In tasks without a shuffler the reports of the running"
    " batch, until it is released, then a fingerprint of each slot.",
    "everybody": "Publications are public for good.",
}
_SUMS = " Sums of earlier batches without noise, if the algorithm continues them."
_ROWS = " Rows of earlier batches with features, arm and reward, because the algorithm sums them again."


def make_privacy_card(task: Task) -> dict[str, Any]:
    """Return the privacy card of a task as plain values (docs/reference/privacy-card.schema.json).

    The numbers are computed from the task's policy again; a document that promises something else is refused.
    """
    facts = task_facts(task)
    stated = facts["guarantee"]
    return {
        "format": FORMAT,
        "bandanna": version("bandanna"),
        "task": {name: facts[name] for name in ("id", "title", "algorithm", "test")},
        "guarantee": {
            "privacy_model": stated["trust"],
            **{name: stated[name] for name in ("epsilon", "delta", "rho", "unit", "participations", "protects")},
            "neighbours": stated["adjacency"],
            "adversary": stated["adversary"],
            "sentences": facts["promise"],
        },
        "users": {"planned": facts["horizon"], "first_batch": facts["first batch"]},
        "report_bytes": facts["report bytes"],
        "parties": [
            {
                "role": row["role"],
                "address": facts["roles"].get(row["role"]),
                "operator": facts["operators"].get(row["role"]),
                "sees": row["sees"],
                "guarantee_against_it": row["left"],
                "keeps": _describe_retention(task, row["role"]),
            }
            for row in facts["sight"]
        ],
        "keys_made_by_one_machine": facts["dealer"],
        "notes": facts["notes"],
    }


def _describe_retention(task: Task, role: str) -> str:
    if role != "analyzer" or not sends_rows(task.policy):
        return RETENTION[role]
    return RETENTION[role] + _SUMS + _ROWS * bool(task.policy.execution.retained_groups)


def render_privacy_card(card: dict[str, Any]) -> str:
    """Return a privacy card as an HTML page that prints on two sheets, without scripts or foreign addresses."""
    templates = Environment(
        loader=PackageLoader("bandanna.deployment.task"), autoescape=True, undefined=StrictUndefined
    )
    templates.filters["rounded"] = lambda value: "infinite" if value is None else format_rounded_up(value)
    return templates.get_template("privacy_card.html").render(card=card)


def write_privacy_card(task: Task, folder: Path) -> tuple[Path, Path]:
    """Write privacy-card.json and privacy-card.html to a folder, and return their paths."""
    card = make_privacy_card(task)
    data, page = folder / "privacy-card.json", folder / "privacy-card.html"
    folder.mkdir(parents=True, exist_ok=True)
    data.write_text(json.dumps(card, indent=2, allow_nan=False) + "\n", encoding="utf-8")
    page.write_text(render_privacy_card(card), encoding="utf-8")
    return data, page
