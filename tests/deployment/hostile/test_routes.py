"""Every route of every role gets hostile requests while honest users report: no request fails or stops a role."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from bandanna.deployment.messages.canonical import dumps, loads, sign
from bandanna.deployment.messages.report import join_reports

from ..visibility.recorded_deployment import Deployed

ROUTES = [
    ("GET", "/task"), ("GET", "/tasks/{t}"), ("GET", "/tasks/{t}/snapshot"), ("GET", "/tasks/{t}/snapshot/0"),
    ("GET", "/tasks/{t}/ledger"), ("GET", "/tasks/{t}/keys"), ("GET", "/tasks/{t}/open"), ("GET", "/tasks/{t}/witness"),
    ("PUT", "/tasks/{t}/witness"), ("POST", "/tasks/{t}/tickets"), ("POST", "/tasks/{t}/reports"),
    ("PUT", "/tasks/{t}/batches/0.0/job"), ("PUT", "/tasks/{t}/batches/0.0/shares/shuffler"),
    ("PUT", "/tasks/{t}/batches/0.0/shares/helper"), ("GET", "/status"), ("POST", "/admin/keys"), ("GET", "/readyz"),
    ("GET", "/metrics"),
]  # fmt: skip
MARK = "hiv-positive"  # what somebody sends, and is told back or logged nowhere
ODD = [MARK, "", "x", "-1", "99999999999999999999", "0.99999999999", "..", "%00", "0.0.0", "é", "a" * 300]
BODIES: list[bytes] = [
    f'{{"{MARK}": "{MARK}"}}'.encode(),
    f'{{"tickets": [{{"user": "{MARK}", "epoch": "{MARK}"}}]}}'.encode(),
    f'{{"tickets": [{{"user": "{MARK}", "epoch": 0, "refused": ["{MARK}"]}}, "{MARK}"]}}'.encode(),
    f'{{"action": "{MARK}", "number": "{MARK}"}}'.encode(), join_reports([MARK.encode()]), f'["{MARK}'.encode(),
    b"", b"\0", b"{}", b"[]", b"NaN", b'{"tickets": NaN}', b'{"tickets": []}', b'{"a": 1, "a": 2}', b"\xff\xfe",
    b"[" * 100_000, b'{"tickets": [{"user": "\\ud800", "epoch": 0}]}', b'{"number": 1e999}', b"9" * 5000,
    b'{"tickets": [{"user": "u", "epoch": 1e400}]}', np.random.default_rng(1).bytes(500), bytes(4000),
    join_reports([bytes(40)] * 1001),
    (2**32 - 1).to_bytes(4, "little") + bytes(100),
]  # fmt: skip
WRONG: list[Any] = [MARK, {MARK: MARK}, None, True, -1, 2**31, 10**30, 1.5, "", "x" * 300, [], {}, [[]], {"a": None}]
INSIDE = re.compile(rb"Traceback|File \"|Error\b|/home/|/tmp/|site-packages|sqlite")


class Attacker:
    """Sends requests and keeps the answers."""

    def __init__(self, deployed: Deployed) -> None:
        self.task = deployed.task.id
        self.clients = {
            role: httpx.Client(base_url=f"http://127.0.0.1:{tap.target}", timeout=600, trust_env=False, verify=False)
            for role, tap in deployed.taps.items()
        }
        self.tokens = {role: {"Authorization": f"Bearer {own.token}"} for role, own in deployed.secrets.items()}
        self.count = 0

    def send(self, role: str, method: str, path: str, body: bytes = b"", headers: Any = None) -> int:
        answer = self.clients[role].request(method, path.replace("{t}", self.task), content=body, headers=headers)
        self.count += 1
        assert answer.status_code < 500 or answer.status_code == 503, (role, method, path, body[:100], answer.text)
        assert MARK.encode() not in answer.content, (role, method, path, answer.text[:300])
        assert MARK not in repr(answer.headers)
        if answer.status_code == 503:
            assert int(answer.headers["retry-after"]) >= 1
        if answer.status_code >= 400:
            assert not INSIDE.search(answer.content), answer.content
            assert answer.json().get("reason") or answer.json()["tickets"]  # one for each of many
        return answer.status_code

    def metrics(self, role: str) -> dict[str, float]:
        text = self.clients[role].get("/metrics", headers=self.tokens[role]).text
        pairs = (line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#")
        return {name: float(value) for name, value in pairs}

    def close(self) -> None:
        for each in self.clients.values():
            each.close()


def everything(attacker: Attacker, every: int) -> None:
    """Every route of every role, whether it has it or not, with every body, with its token and without.

    Of these one in `every`: a route has 59, so that with 3 another third is sent to the next.
    """
    for number, (role, method, path, body, headers) in enumerate(_requests(attacker)):
        if number % every == 0:
            attacker.send(role, method, path, body, headers)
    for role in attacker.clients:
        for query in (
            "after=x",
            "after=nan&wait=nan",
            "wait=nan&after=99",
            "after=inf&wait=0",
            "after=-1e999",
            "wait=-5",
        ):
            attacker.send(role, "GET", "/tasks/{t}/snapshot?" + query)
        attacker.send(role, "DELETE", "/tasks/{t}/reports")


def _requests(attacker: Attacker) -> Iterator[tuple[str, str, str, bytes, Any]]:
    for role in attacker.clients:
        for method, path in ROUTES:
            for body in BODIES:
                yield role, method, path, body, {"Signature": "x" * 86}
            for headers in (attacker.tokens[role], {"Authorization": "Bearer é".encode()}, {"Signature": "é".encode()}):
                for body in BODIES[::3]:
                    yield role, method, path, body, headers
            for odd in ODD:
                yield role, method, path.replace("{t}", odd or "x").replace("0.0", odd or "y"), b"{}", None


def genuine(deployed: Deployed) -> Iterator[tuple[str, str, str, bytes]]:
    """Return captured requests between roles: role, method, path and body."""
    for role, tap in deployed.taps.items():
        for connection in tap.connections:
            text = bytes(connection.sent)
            for head in re.finditer(rb"(PUT|POST) (\S+) HTTP/1\.1\r\n((?:[^\r]+\r\n)*)\r\n", text):
                length = re.search(rb"(?i)content-length: (\d+)", head[3])
                if length is not None:
                    body = text[head.end() : head.end() + int(length[1])]
                    yield role, head[1].decode(), head[2].decode(), body


def changed(document: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the document with one of its parts replaced or removed, down to some depth."""
    if isinstance(document, dict) and depth < 4:
        for name, value in document.items():
            yield {key: each for key, each in document.items() if key != name}
            yield from ({**document, name: wrong} for wrong in WRONG)
            yield from ({**document, name: inner} for inner in changed(value, depth + 1))
    elif isinstance(document, list) and document and depth < 4:
        yield from ([wrong, *document[1:]] for wrong in WRONG)
        yield from ([inner, *document[1:]] for inner in changed(document[0], depth + 1))
        yield document[1:]
        yield [*document, document[0]]


def resigned(attacker: Attacker, deployed: Deployed, every: int) -> int:
    """Yield changed documents of other roles, signed with their keys."""
    seen: set[tuple[str, str]] = set()
    count = 0
    for role, method, path, body in list(genuine(deployed)):
        kind = re.sub(r"\d+\.\d+", "", path)
        if body[:1] != b"{" or (role, kind) in seen:
            continue
        seen.add((role, kind))
        document = loads(body)
        signer = {"job": "shuffler", "helper": "helper", "shuffler": "shuffler"}.get(path.rsplit("/", 1)[1])
        for number, each in enumerate(changed(document)):
            if number % every:
                continue
            content = json.dumps(each).encode() if signer is None else dumps(each)
            headers = dict(attacker.tokens[role]) if signer is None else {}
            if signer is not None:
                named = "job" if path.endswith("/job") else "share"
                headers["Signature"] = sign(deployed.secrets[signer].sign, deployed.task.id, named, content)
            for where in {path, path.replace("/0.0/", "/7.0/"), re.sub(r"/\d+\.\d+/", "/1.0/", path)}:
                attacker.send(role, method, where, content, headers)
                count += 1
    return count


@pytest.mark.often(when=lambda every: every > 1)
@pytest.mark.parametrize(
    ("algorithm", "rules", "every"),
    [("LinTS-SDP", {"mixers": 2}, 3), ("LinTS-SDP", {"mixers": 2}, 1), ("LinTS-JDP", {}, 1)],
)
def test_no_request_is_a_failure_or_shows_what_was_sent(
    algorithm: str, rules: dict[str, Any], every: int, tmp_path: Path
) -> None:
    deployed = Deployed(tmp_path, algorithm, rounds=20, **rules)
    try:
        deployed.begin()
        attacker = Attacker(deployed)
        account = deployed.play(lambda: everything(attacker, every))
        assert account.refused == {}
        assert account.publications[-1].number >= 2
        assert resigned(attacker, deployed, every=7 if rules else 1) > 50
        _floods(attacker, deployed)
        for role in deployed.task.roles:
            counted = attacker.metrics(role)
            reasons = {name: value for name, value in counted.items() if "bandanna_refusals_total{" in name}
            assert sum(reasons.values()) > 100
            assert not [name for name in reasons if 'reason="internal"' in name]
        collector = attacker.metrics(deployed.task.collector)
        reports = {name: value for name, value in collector.items() if "bandanna_reports_total{" in name}
        assert any('"malformed"' in name for name in reports)
        assert any('"kept"' in name for name in reports)
        attacker.close()
    finally:
        deployed.end()
    for role in deployed.task.roles:
        assert MARK not in repr(deployed.lines(role))
        assert not {"internal", "unhandled", "server"} & {line["event"] for line in deployed.lines(role)}


def _floods(attacker: Attacker, deployed: Deployed) -> None:
    """Send many full requests of forged reports at once: all are answered, and memory stays bounded."""
    role, rng = deployed.task.collector, np.random.default_rng(5)
    request = join_reports([rng.bytes(40) + bytes(8)] * 1000)
    path = f"/tasks/{deployed.task.id}/reports"
    attacker.send(role, "POST", path, request)
    before = deployed.memory(role)
    with ThreadPoolExecutor(16) as pool:
        said = list(pool.map(lambda _: attacker.send(role, "POST", path, request), range(64)))
    assert deployed.memory(role) - before < 100 << 20  # bytes: 64 requests of 1000 reports leave nothing behind
    assert set(said) <= {409, 422, 503}
    assert attacker.send(role, "POST", path, bytes(2 << 20)) == 413
