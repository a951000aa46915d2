"""The files of deploy/: they parse, name every role, and use options that the command has."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from bandanna.cli.main import app
from bandanna.deployment.task.document import ROLES

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE = (DEPLOY / "compose.yaml").read_text()
UNIT = (DEPLOY / "bandanna@.service").read_text()
NGINX = (DEPLOY / "nginx.conf").read_text()


def options_of_serve() -> set[str]:
    command: Any = get_command(app)
    return {name for each in command.commands["serve"].params for name in each.opts if name.startswith("--")}


def check_options(arguments: list[str]) -> None:
    """Check that all options exist and that the required ones are there."""
    given = {each for each in arguments if each.startswith("--")}
    assert given <= options_of_serve(), given - options_of_serve()
    assert {"--task", "--secret", "--db"} <= given


def test_compose_runs_every_role_with_its_own_secrets() -> None:
    document = yaml.safe_load(COMPOSE)
    services, secrets = document["services"], document["secrets"]
    for role in ROLES:
        own = services[role]
        arguments = own["command"]
        assert arguments[:2] == ["serve", role]
        check_options(arguments)
        assert own["secrets"] == [role, f"{role}_pgpass"]
        assert arguments[arguments.index("--secret") + 1] == f"/run/secrets/{role}"
        database = arguments[arguments.index("--db") + 1]
        assert database == f"postgresql://bandanna@{role}-db/bandanna?passfile=/run/secrets/{role}_pgpass"
        assert set(own["networks"]) == {"front", role}
        assert services[f"{role}-db"]["networks"] == [role]
        assert secrets[role]["file"] == f"./secrets/{role}.secret.json"
        for hardened in ("read_only", "cap_drop", "security_opt", "stop_grace_period"):
            assert hardened in own, hardened
    assert "ports" not in {name for role in ROLES for name in services[role]}
    used = {name for each in services.values() for name in each.get("secrets", ())}
    assert used == set(secrets)


def test_passwords_do_not_stand_in_the_compose_file() -> None:
    assert not re.search(r"PASSWORD(?!_FILE)|postgresql://\w+:", COMPOSE + UNIT)


def test_images_are_named_without_a_registry() -> None:
    text = COMPOSE + (DEPLOY / "Dockerfile").read_text()
    images = re.findall(r"image: (\S+)", text) + re.findall(r"^ARG PYTHON=(\S+)", text, re.MULTILINE)
    assert images
    assert all(re.fullmatch(r"[a-z]+:[\w.-]+", image) for image in images), images


def unit() -> dict[str, dict[str, list[str]]]:
    sections: dict[str, dict[str, list[str]]] = {}
    for line in UNIT.splitlines():
        if not line or line.startswith("#"):
            continue
        if found := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(found[1], {})
            continue
        name, equals, value = line.partition("=")
        assert equals, line
        assert re.fullmatch(r"[A-Z]\w+", name), line
        section.setdefault(name, []).append(value)
    return sections


def test_the_unit_serves_its_role_with_least_privileges() -> None:
    made = unit()
    service = made["Service"]
    arguments = shlex.split(service["ExecStart"][0])
    assert arguments[1:3] == ["serve", "%i"]
    check_options(arguments)
    wanted = {
        "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
        "StateDirectory": "bandanna/%i", "UMask": "0077", "CapabilityBoundingSet": "", "User": "bandanna-%i",
        "KillSignal": "SIGTERM", "Restart": "always",
    }  # fmt: skip
    assert {name: service[name][0] for name in wanted} == wanted
    assert set(made) == {"Unit", "Service", "Install"}
    users = (DEPLOY / "sysusers.conf").read_text()
    assert all(f"u bandanna-{role} " in users for role in ROLES)


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        return
    (tmp_path / "bandanna@.service").write_text(UNIT.replace("/opt/bandanna/bin/bandanna", "/bin/sh"))
    for role in ROLES:
        done = subprocess.run(
            ["systemd-analyze", "verify", str(tmp_path / f"bandanna@{role}.service")], capture_output=True, text=True
        )
        assert "bandanna@" not in done.stderr, done.stderr


def blocks(text: str) -> list[str]:
    """Yield every directive of an nginx configuration after its blocks."""
    text = re.sub(r"#.*", "", text)
    text = re.sub(r"(~ )(\S+)", lambda found: found[1] + found[2].replace("{", "(").replace("}", ")"), text)
    stack: list[str] = []
    found: list[str] = []
    for words, end in re.findall(r"([^;{}]*)([;{}])", text):
        directive = " ".join(words.split())
        if end == "{":
            assert directive, "a block without a name"
            stack.append(directive)
        elif end == "}":
            assert not directive, f"no ; after {directive}"
            stack.pop()
        else:
            found.append(" > ".join([*stack, directive]))
    assert not stack, stack
    assert not re.search(r"[^\s;{}][^;{}]*\Z", text), "a directive without an end"
    return found


def test_the_proxy_leads_to_every_role_and_logs_no_address() -> None:
    found = blocks(NGINX)
    for role in ("registrar", "analyzer", "shuffler"):
        assert any(f"upstream {role} > server {role}:" in each for each in found)
        assert any(f"server_name {role}.example" in each for each in found)
        assert any(each.endswith(f"proxy_pass http://{role}") for each in found)
    assert "helper.example" in NGINX
    assert "http > access_log off" in found
    assert "error_log stderr crit" in found
    assert 'http > proxy_set_header X-Forwarded-For ""' in found
    locations = re.findall(r"location ~ (\S+)", NGINX)
    inside = ("/metrics", "/status", "/readyz", "/admin/keys")
    assert not [path for path in inside for each in locations if re.search(each, path)]
    task = "SR_fhpurYVjpTug98LmwdqiQqdCx8MBOQ7z30G2_9Y8"
    public = "tickets witness reports open snapshot snapshot/3 ledger batches/0.0/shares/shuffler/a-b batches/12.1/job"
    for path in public.split():
        assert any(re.search(each, f"/tasks/{task}/{path}") for each in locations), path


def test_the_proxy_bounds_what_a_client_costs_everywhere() -> None:
    text = NGINX + re.sub(r"^    # ?", "    ", NGINX.partition("# upstream helper")[2], flags=re.MULTILINE)
    text = re.sub(r"#.*", "", text)
    found = re.findall(r"location (?:~|=) (\S+) \{(.*?)\n +\}", text, re.DOTALL)
    leading = [(path, body) for path, body in found if "proxy_pass" in body]
    assert len(leading) == text.count("proxy_pass") >= 9
    for path, body in leading:
        assert re.search(r"limit_req zone=\w+ burst=\d+ nodelay;", body), path
        bound = re.search(r"limit_conn (\w+) (\d+);", body)
        assert bound, path
        assert int(bound[2]) <= 64
    directives = blocks(NGINX)
    assert "http > client_header_timeout 10s" in directives
    assert "http > client_body_timeout 3s" in directives
    assert "http > proxy_request_buffering on" in directives
    zones = set(re.findall(r"limit_(?:req|conn) (?:zone=)?(\w+)", NGINX))
    assert zones <= set(re.findall(r"limit_(?:req|conn)_zone \$stranger zone=(\w+):", NGINX))


def test_the_proxys_roles_are_where_compose_serves_them() -> None:
    services = yaml.safe_load(COMPOSE)["services"]
    subnet = yaml.safe_load(COMPOSE)["networks"]["front"]["ipam"]["config"][0]["subnet"]
    assert f"{subnet} 1;" in NGINX
    for role, port in re.findall(r"upstream \w+ +\{ server (\w+):(\d+);", NGINX):
        arguments = services[role]["command"]
        at = {arguments[arguments.index("--port") + 1]}
        if "--peers" in arguments:
            at.add(arguments[arguments.index("--peers") + 1].rpartition(":")[2])
        assert port in at, (role, port)
        assert arguments[arguments.index("--proxy") + 1] == subnet


@pytest.mark.parametrize("broken", ["http { a b; ", "a b; }", "a { b }", "a b"])
def test_a_broken_proxy_configuration_is_noticed(broken: str) -> None:
    with pytest.raises((AssertionError, IndexError)):
        blocks(broken)


def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    if shutil.which("nginx") is None:
        return
    text = re.sub(r"(server )(\w+)(:\d+)", r"\g<1>127.0.0.1\3", NGINX)
    text = re.sub(r"\n    ssl_certificate.*", "", text).replace("443 ssl", "8443")
    (tmp_path / "nginx.conf").write_text(text)
    done = subprocess.run(["nginx", "-t", "-c", str(tmp_path / "nginx.conf")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
