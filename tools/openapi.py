"""Write docs/reference/openapi.json, the HTTP API of the roles: `python -m tools.openapi`.

tests/docs/test_reference_pages.py compares the file with this module, and its routes with those of the roles.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tools.site_hooks import read_version

FILE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "openapi.json"

DOCUMENT, PUBLICATION, LEDGER, NUMBERS = "Task", "Publication", "Ledger", "Numbers"
BUSY = {"503": "The role cannot answer now. Retry-After says when to try again."}

Operation = dict[str, Any]


def operation(role: str, summary: str, answers: dict[str, str], **more: Any) -> Operation:
    """Return what `ROUTES` says of one route."""
    return {"role": role, "summary": summary, "answers": answers, **more}


ROUTES: dict[str, Operation] = {
    "GET /task": operation("analyzer", "Task document", {"200": "The document"}, schema=DOCUMENT),
    "GET /tasks/{task}": operation("analyzer", "Task document", {"200": "The document"}, schema=DOCUMENT),
    "GET /tasks/{task}/snapshot": operation(
        "analyzer",
        "Newest publication",
        {"200": "The publication in force", "204": "No publication is newer than `after`", **BUSY},
        schema=PUBLICATION,
        query={"after": "Wait for a publication with a larger number.", "wait": "Seconds to wait, at most 25."},
        signed=True,
    ),
    "GET /tasks/{task}/snapshot/{number}": operation(
        "analyzer",
        "Publication by number",
        {"200": "The publication", "404": "No such number", **BUSY},
        schema=PUBLICATION,
        signed=True,
    ),
    "GET /tasks/{task}/links/{block}": operation(
        "analyzer",
        "Hashes of 256 publications",
        {"200": "SHA-256 of each document, 32 bytes each", "404": "No such block", **BUSY},
        media="application/octet-stream",
    ),
    "GET /tasks/{task}/history": operation(
        "analyzer",
        "One line for each publication",
        {"200": "Number, epoch, round, outcome, chain, status and spent of each publication", **BUSY},
        schema="History",
        query={"after": "Only publications with a larger number.", "most": "Lines at most, up to 1000."},
    ),
    "GET /tasks/{task}/ledger": operation("analyzer", "Expenses", {"200": "The ledger", **BUSY}, schema=LEDGER),
    "GET /tasks/{task}/ledger/summary": operation(
        "analyzer", "Expenses by price", {"200": "How often each price was paid", **BUSY}, schema=LEDGER
    ),
    "PUT /tasks/{task}/batches/{batch}/shares/{mixer}": operation(
        "analyzer",
        "Totals of a round, signed by a mixer",
        {
            "200": "The same share is known; with a receipt",
            "201": "The batch was released; with a receipt",
            "202": "The share is stored",
            "401": "The mixer has not signed it",
            "409": "Another share is stored, or the round is over; with a receipt",
            "422": "The batch was burned; with a receipt",
            **BUSY,
        },
        schema="Receipt",
        request="application/octet-stream",
    ),
    "GET /tasks/{task}/batches/{batch}/shares/{mixer}/{digest}": operation(
        "analyzer",
        "Receipt of a share",
        {
            "200": "The round was released from this share",
            "404": "The round is awaited",
            "409": "The round is over, with other totals",
        },
        schema="Receipt",
    ),
    "POST /tasks/{task}/reports": operation(
        "collector",
        "Reports, at most 1000",
        {
            "201": "All reports are stored; their places",
            "400": "These are no reports",
            "409": "A result for each report: some came too late or are known",
            "422": "A result for each report: some cannot be used",
            **BUSY,
        },
        schema="Results",
        request="application/octet-stream",
    ),
    "GET /tasks/{task}/open": operation(
        "collector", "The batch that takes new slots", {"200": "Its number, or null", **BUSY}, schema="Open"
    ),
    "POST /tasks/{task}/tickets": operation(
        "registrar",
        "Tickets for users, at most 1000",
        {
            "200": "At least one ticket was given",
            "401": "The token is missing or wrong",
            "409": "No ticket was given",
            "429": "No user has a participation left",
            **BUSY,
        },
        schema="Tickets",
        request="TicketRequest",
        token=True,
    ),
    "PUT /tasks/{task}/witness": operation(
        "registrar",
        "The analyzer's witness of a publication",
        {
            "200": "The cosignature that was given before",
            "201": "A new cosignature",
            "403": "The analyzer has not signed it",
            "409": "Another publication stands",
            **BUSY,
        },
        schema="Witness",
        request="application/json",
    ),
    "GET /tasks/{task}/witness": operation(
        "registrar",
        "The newest publication that stands",
        {"200": "Number, chains, awaited epoch and cosignature", "404": "There is none yet"},
        schema="Witness",
    ),
    "PUT /tasks/{task}/batches/{batch}/job": operation(
        "helper",
        "Sealed seeds of a round, signed by the shuffler",
        {"200": "The same job is known", "201": "The job is done", "409": "Another job is stored", **BUSY},
        request="application/octet-stream",
        schema=NUMBERS,
    ),
    "POST /admin/keys": operation(
        "helper",
        "Rotate or delete sealing keys",
        {
            "200": "The keys and their states",
            "400": "No such action",
            "401": "The admin token is missing or wrong",
            "409": "The keys cannot be changed so",
        },
        request="KeyAction",
        schema=NUMBERS,
        token=True,
    ),
    "GET /livez": operation("all", "Whether the process answers", {"200": "It does"}, schema="Health"),
    "GET /readyz": operation("all", "Whether the role can work", {"200": "It can", "503": "Not now"}, schema="Health"),
    "GET /version": operation("all", "Version of the package", {"200": "The version"}, schema="Version"),
    "GET /metrics": operation(
        "all", "Metrics for Prometheus", {"200": "The metrics"}, media="text/plain", token=True
    ),
    "GET /status": operation("all", "Numbers of the role", {"200": "The numbers"}, schema=NUMBERS, token=True),
}  # fmt: skip

_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
SCHEMAS: dict[str, Any] = {
    "Task": {"type": "object", "description": "The public document of a task; its SHA-256 is the task's id."},
    "Publication": {"type": "object", "description": "State, snapshot and batches, chained to the one before."},
    "Ledger": {"type": "object", "properties": {"task": _TEXT, "ledger": {}}},
    "History": {
        "type": "object",
        "properties": {"task": _TEXT, "newest": _NUMBER, "lines": {"type": "array", "items": {"type": "object"}}},
    },
    "Receipt": {"type": "object", "properties": {"receipt": {"type": "object"}}},
    "Results": {"type": "object", "description": "`places`, or a result with a reason for each report."},
    "Open": {"type": "object", "properties": {"open": {"type": ["integer", "null"]}}},
    "TicketRequest": {
        "type": "object",
        "required": ["tickets"],
        "properties": {
            "tickets": {
                "type": "array",
                "maxItems": 1000,
                "items": {
                    "type": "object",
                    "required": ["user", "epoch"],
                    "properties": {
                        "user": {"type": "string", "minLength": 1, "maxLength": 200},
                        "epoch": _NUMBER,
                        "refused": {"type": "array", "items": {"type": "array"}},
                    },
                },
            }
        },
    },
    "Tickets": {
        "type": "object",
        "properties": {
            "tickets": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "epoch": _NUMBER, "slot": _TEXT, "collector": _TEXT, "helper": _TEXT, "refused": _TEXT
                    },
                },
            }
        },
    },
    "Witness": {"type": "object", "description": "Number, previous chain, chain, awaited epoch and cosignature."},
    "KeyAction": {
        "type": "object",
        "required": ["action"],
        "properties": {"action": {"enum": ["rotate", "delete"]}, "id": {"type": "integer", "minimum": 0}},
    },
    "Health": {"type": "object", "properties": {"ok": {"type": "boolean"}}},
    "Version": {"type": "object", "properties": {"version": _TEXT}},
    "Numbers": {"type": "object"},
}  # fmt: skip


def _content(schema: str | None, media: str | None) -> dict[str, Any]:
    if media is not None:
        return {media: {"schema": _TEXT}}
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


def _describe(path: str, given: Operation) -> dict[str, Any]:
    names = re.findall(r"{(\w+)}", path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in names]
    parameters += [
        {"name": name, "in": "query", "description": words, "schema": {"type": "number"}}
        for name, words in given.get("query", {}).items()
    ]
    answers: dict[str, Any] = {}
    for status, words in given["answers"].items():
        answers[status] = {"description": words}
        if status == "200" or (status == "201" and "200" not in given["answers"]):
            answers[status]["content"] = _content(given.get("schema"), given.get("media"))
            if given.get("signed"):
                headers = ("Signature", "Witness", "ETag")
                answers[status]["headers"] = {name: {"schema": _TEXT} for name in headers}
    made: dict[str, Any] = {"tags": [given["role"]], "summary": given["summary"]}
    if parameters:
        made["parameters"] = parameters
    if request := given.get("request"):
        content = {request: {}} if "/" in request else _content(request, None)
        made["requestBody"] = {"required": True, "content": content}
    if given.get("token"):
        made["security"] = [{"token": []}]
    return made | {"responses": answers}


def make_document() -> dict[str, Any]:
    """Return the API as an OpenAPI document."""
    paths: dict[str, Any] = {}
    for name, given in ROUTES.items():
        method, path = name.split()
        paths.setdefault(path, {})[method.lower()] = _describe(path, given)
    roles = ("analyzer", "collector", "registrar", "helper", "all")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bandanna deployment roles",
            "version": read_version(),
            "description": "Each role is a server of its own; tags name the role. The collector is the shuffler, or"
            " the analyzer in models without a shuffler. More statuses: 400, 404, 408, 413, 421, 503 with a reason.",
        },
        "servers": [{"url": "{role}", "variables": {"role": {"default": "http://127.0.0.1:8701"}}}],
        "tags": [{"name": role} for role in roles],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": SCHEMAS,
        },
    }


def write_text() -> str:
    """Return the text of the file."""
    return json.dumps(make_document(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(write_text(), encoding="utf-8")
