"""Alert rules, the Grafana board, and manifests of deploy/ agree with what roles export and with public schemas."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import compose_spec
import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from bandanna.cli.main import app

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SOURCES = "".join(path.read_text() for path in (ROOT / "src/bandanna/deployment").rglob("*.py"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def exported_metrics() -> set[str]:
    names = set(re.findall(r'"(bandanna_[a-z_]+)"', SOURCES))
    return names | {"bandanna_request_duration_seconds_bucket"}


def named_metrics(expressions: list[str]) -> set[str]:
    return {name for each in expressions for name in re.findall(r"bandanna_\w+", each)}


def test_alert_rules_name_only_metrics_that_roles_export() -> None:
    (group,) = yaml.safe_load((DEPLOY / "monitoring/alerts.yaml").read_text())["groups"]
    rules = group["rules"]
    assert named_metrics([rule["expr"] for rule in rules]) <= exported_metrics()
    assert all(rule["labels"]["severity"] in ("page", "ticket") and rule["annotations"]["summary"] for rule in rules)
    assert len({rule["alert"] for rule in rules}) == len(rules)


def test_the_board_shows_every_metric_that_an_operator_watches() -> None:
    board = json.loads((DEPLOY / "monitoring/grafana.json").read_text())
    shown = named_metrics([target["expr"] for panel in board["panels"] for target in panel["targets"]])
    unshown = {"bandanna_batch_number", "bandanna_received_bytes_total", "bandanna_shares_sent_total"}
    unshown |= {"bandanna_jobs_total", "bandanna_bad_seeds_total", "bandanna_request_duration_seconds"}
    assert shown <= exported_metrics()
    assert exported_metrics() - shown == unshown
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_follow_the_schemas_of_kubernetes(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(document, desired_version="1.31", strict=True)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_run_roles_with_probes_and_known_options(path: Path) -> None:
    command: Any = get_command(app)
    known = {name for each in command.commands["serve"].params for name in each.opts}
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] == "Deployment":
            assert document["spec"]["replicas"] == 1
            (container,) = document["spec"]["template"]["spec"]["containers"]
            assert {each for each in container["args"] if each.startswith("--")} <= known
            assert container["args"][:2] == ["serve", document["metadata"]["name"]]
            assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
            assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_compose_file_follows_the_compose_specification() -> None:
    compose_spec.PyOptions(apply_merge=True).from_yaml((DEPLOY / "compose.yaml").read_text())


def test_every_service_of_the_compose_file_but_the_proxy_has_a_health_check() -> None:
    for name, service in COMPOSE["services"].items():
        assert name == "proxy" or service["healthcheck"]["test"]


def test_the_image_is_built_from_locked_requirements_and_files_that_exist() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    copied = [
        each for line in lines if line.startswith("COPY ") and "--from" not in line for each in line.split()[1:-1]
    ]
    assert copied
    assert all((ROOT / each).exists() for each in copied)
    assert any("--require-hashes" in line and "requirements/deployment.txt" in line for line in lines)
    assert shutil.which("install")  # of the init container
