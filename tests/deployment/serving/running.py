"""Processes that serve `example.py`, and their clients."""

from __future__ import annotations

import ipaddress
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from bandanna.deployment.http.application import Application, build_application
from bandanna.deployment.http.metrics import EventLog

from ...nursery import nursery

TOKEN = "an-administrators-secret"
ADMIN = {"authorization": f"Bearer {TOKEN}"}
HERE = Path(__file__).parent


class Running:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.errors = folder / f"stderr-{time.monotonic_ns()}"
        with self.errors.open("wb") as errors:
            program = [str(HERE / "example.py"), json.dumps({"token": TOKEN, **settings})]
            self.process = nursery().start(
                [sys.executable, "-W", "error", *program], stdout=subprocess.PIPE, stderr=errors
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.port = int(line) if line else 0
        self.url = f"{'https' if 'cert' in settings else 'http'}://127.0.0.1:{self.port}"

    def client(self, **options: Any) -> httpx.Client:
        known = {"verify": False, **options}  # to load certificates that plain HTTP does not need takes its time
        return httpx.Client(base_url=self.url, timeout=600, trust_env=False, **known)

    def metric(self, line: str) -> float:
        """Return the sum of the samples whose line begins so."""
        with self.client() as client:
            text = client.get("/metrics", headers=ADMIN).text
        return sum(float(each.rpartition(" ")[2]) for each in text.splitlines() if each.rpartition(" ")[0] == line)

    def connect(self, *, source: str = "127.0.0.1", port: int | None = None) -> socket.socket:
        at = self.port if port is None else port
        return socket.create_connection(("127.0.0.1", at), timeout=600, source_address=(source, 0))

    def raw(self, *pieces: bytes, pause: float = 0.0) -> bytes:
        with self.connect() as connection:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause)
            return rest(connection)

    def lines(self) -> list[dict[str, Any]]:
        """Return the log; fail if anything else was written."""
        return [json.loads(line) for line in self.errors.read_text().splitlines()]

    def let_go(self) -> None:
        """Let the requests to /hold end."""
        self.process.send_signal(signal.SIGUSR1)

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.communicate(timeout=600)
        return self.process.returncode


def in_flight(server: Running, requests: int) -> None:
    """Wait until so many requests are in flight, beside this one."""
    deadline = time.monotonic() + 600
    while server.metric("bandanna_requests_in_flight") != requests + 1:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until_refused(server: Running) -> None:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            server.connect().close()
        except ConnectionRefusedError:
            return
        time.sleep(0.02)
    raise AssertionError("somebody still listens")


def rest(connection: socket.socket) -> bytes:
    said = b""
    while True:
        try:
            piece = connection.recv(1 << 16)
        except ConnectionResetError:
            return said
        if not piece:
            return said
        said += piece


def until(connection: socket.socket, end: bytes) -> bytes:
    """Return all bytes up to `end`; fail if the connection is closed before."""
    said = b""
    while not said.endswith(end):
        piece = connection.recv(1 << 16)
        assert piece, said
        said += piece
    return said


@contextmanager
def running(folder: Path, **settings: Any) -> Iterator[Running]:
    server = Running(folder, **settings)
    try:
        yield server
    finally:
        server.stop()


Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parse_metrics(text: str) -> tuple[dict[str, str], Samples]:
    """Return types by the name of a family, and values by name and labels, each once."""
    families = list(text_string_to_metric_families(text))
    samples = [sample for family in families for sample in family.samples]
    values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(values) == len(samples)
    return {family.name: family.type for family in families}, values


def idle_application(**parts: Any) -> Application:
    """Return an application that does nothing."""

    async def nothing() -> None:
        return None

    own: dict[str, Any] = {"role": "example", "routes": [], "start": nothing, "stop": nothing, "health": dict}
    own |= {"status": dict, "metrics": CollectorRegistry(), "log": EventLog("example"), "token": None}
    return build_application(**own | parts)


def write_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a certificate of the loopback address, signed by itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "role.example")])
    now = datetime.now(UTC)
    places = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(places, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return folder / "cert.pem", folder / "key.pem"
