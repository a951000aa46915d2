"""The reference pages of a deployment name what the program has: keys, routes, metrics, tables and reasons."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

from bandanna.deployment import collector, helper, registrar
from bandanna.deployment.analyzer import processor
from bandanna.deployment.messages.report import REASONS
from bandanna.deployment.task.creation import _RULES, _TOP
from bandanna.privacy.stores.database import LEDGER_SCHEMA
from tools.openapi import FILE, make_document, write_text

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
DEPLOYMENT = ROOT / "src" / "bandanna" / "deployment"
SOURCES = "\n".join(
    path.read_text(encoding="utf-8")
    for path in sorted(DEPLOYMENT.glob("**/*.py"))
    if not {"dashboard", "client", "task", "messages"} & set(path.relative_to(DEPLOYMENT).parts)
)


def read(page: str) -> str:
    """Return the text of a reference page."""
    return (REFERENCE / page).read_text(encoding="utf-8")


def find_routes() -> set[str]:
    """Return the routes of the roles, as in "GET /task"."""
    made = {f"{method} {path}" for method, path in re.findall(r'\("(GET|PUT|POST)", "(/[^"]*)"', SOURCES)}
    made |= set(re.findall(r'"(PUT /[^"]*)"', SOURCES)) - {"PUT /jobs/{job}"}
    made |= {f"POST {path}" for path in re.findall(r'\{"(/tasks/[^"]*)": ', SOURCES)}
    return made | {f"GET {path}" for path in re.findall(r'method="GET", template="([^"]*)"', SOURCES)}


def test_every_table_is_on_the_page() -> None:
    scripts = [processor.SCHEMA, collector.SCHEMA, LEDGER_SCHEMA, helper.SCHEMA, registrar.SCHEMA]
    tables = {name for script in scripts for name in re.findall(r"create table (?:if not exists )?(\w+)", script)}
    rows = "".join(line for line in read("databases.md").splitlines() if line.startswith("| "))
    assert set(re.findall(r"`(\w+)`", rows)) == tables | {"claim"}


def test_every_metric_is_on_the_page() -> None:
    routes = importlib.import_module("bandanna.deployment.collector_service")
    made = set(re.findall(r"\b(?:Counter|Gauge|Histogram)(?:MetricFamily)?\(\s*\"(\w+)\"", SOURCES))
    rows = [line.split("|")[1] for line in read("metrics-and-logs.md").splitlines() if line.startswith("| `")]
    named = {name for row in rows for name in re.findall(r"`(\w+)`", re.sub(r"by `\w+`", "", row))}
    assert named == made | set(routes._GAUGES)


def test_every_route_is_on_the_page() -> None:
    section = read("http-api.md").partition("## Routes")[2].partition("\n## ")[0]
    assert set(re.findall(r"`((?:GET|PUT|POST) /[^`?]*)`", section)) - {"POST /reports"} == find_routes()


def test_the_openapi_file_has_the_routes_of_the_roles() -> None:
    assert FILE.read_text(encoding="utf-8") == write_text()
    paths = json.loads(write_text())["paths"]
    assert {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods} == find_routes()


def test_every_schema_of_the_openapi_file_is_defined() -> None:
    schemas = make_document()["components"]["schemas"]
    assert set(re.findall(r"#/components/schemas/(\w+)", write_text())) == set(schemas)


def test_every_reason_is_on_the_page() -> None:
    assert [reason for reason in REASONS if f"`{reason}`" not in read("http-api.md")] == []


def test_every_key_of_a_task_is_on_the_page() -> None:
    keys = (*(f"rules.{name}" for name in _RULES), *(set(_TOP) - {"rules"}))
    page = read("task-file.md")
    assert [key for key in keys if f"`{key}`" not in page and f"`[{key}]`" not in page] == []
