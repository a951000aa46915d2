"""A dishonest analyzer, and devices that are faster than the shuffler."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import bandanna as bd
from bandanna.deployment.client.load_simulation import HttpDeployment
from bandanna.deployment.client.policy_device import CurrentPublication
from bandanna.deployment.messages.canonical import digest, dumps, loads, sign, signing_key
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.deployment.shuffler import Shuffler
from bandanna.deployment.task.document import Task, check_announced
from bandanna.errors import BandannaError
from bandanna.protocols.factory import make_mixer_encoding

from ..inside import Inside, a_task, shown, signed

POLICIES: dict[str, Callable[[], Any]] = {
    "shuffle": lambda: bd.make("LinTS-SDP", dim=2, horizon=60, batch=20, epsilon=5.0, delta=1e-3),
    "gaussian": lambda: bd.make("LinUCB-SDP-Amp", dim=2, horizon=60, width=0.2, epsilon=5.0, delta=1e-3),
    "local": lambda: bd.make("LinTS-LDP", dim=2, horizon=60, batch=20, epsilon=5.0, delta=1e-3),
    "concurrent": lambda: bd.make("LinTS-CSDP", dim=2, horizon=40, epsilon=5.0, delta=1e-3),
}


@cache
def _task(name: str, mixers: int | None) -> Any:
    return a_task(POLICIES[name](), seed=None, mixers=mixers)


class Liar:
    """Signs any document as the analyzer of a task."""

    def __init__(self, name: str, folder: Path, mixers: int | None = None) -> None:
        self.task, self.secrets = _task(name, mixers)
        self.inside = Inside(self.task, self.secrets, folder)
        self.honest: dict[str, Any] = loads(self.inside.processor.published.document)
        self.said = shown(self.inside.processor.published)

    def sign(self, **changes: Any) -> SignedPublication:
        """Return the honest publication with changed fields, cosigned."""
        self.said = signed(self.task.id, self.secrets, dumps({**self.honest, **changes}))
        return self.said

    def publication(self, task: str, after: int | None = None, wait: float = 0.0) -> SignedPublication:
        return self.said

    def batches(self, **changes: Any) -> list[Any]:
        first, *rest = self.honest["batches"]
        return [{**first, **changes}, *rest]


def _quiet(liar: Liar) -> list[Any]:
    """Return mixers that close with too few users."""
    first, *rest = liar.honest["batches"]
    part = first["rounds"][0]["parts"][0]
    changed = part["mixer"].replace(f'"least":{first["slots"]}', '"least":1')
    return [{**first, "slots": 1, "rounds": [{"parts": [{**part, "mixer": changed}]}]}, *rest]


def shuffler_of(liar: Liar) -> Shuffler:
    return Shuffler(
        liar.inside.collector,
        task_id=liar.task.id,
        analyzer=liar,  # type: ignore[arg-type]
        helper=None,
        sign=partial(sign, liar.secrets["shuffler"].sign, liar.task.id),
        analyzer_key=liar.task.key("analyzer"),
        registrar_key=liar.task.key("registrar"),
        check=partial(check_announced, liar.task),
    )


LIES: dict[str, Callable[[Liar], list[Any]]] = {
    "one person": lambda liar: liar.batches(slots=1),
    "one person, and a mixer that lets it": _quiet,
    "more people": lambda liar: liar.batches(slots=10_000),
    "shorter reports": lambda liar: liar.batches(
        rounds=[{"parts": [{**liar.honest["batches"][0]["rounds"][0]["parts"][0], "length": 1}]}]
    ),
    "rows as they are": lambda liar: liar.batches(
        rounds=[{"parts": [{"arm": None, "form": "row", "dtype": "<f8", "length": 6, "stream": None, "mixer": None}]}]
    ),
    "a round more": lambda liar: liar.batches(rounds=liar.honest["batches"][0]["rounds"] * 2),
    "a batch more": lambda liar: [*liar.honest["batches"], *liar.honest["batches"]],
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", POLICIES)
def test_devices_report_to_no_other_plan(name: str, lie: str, tmp_path: Path) -> None:
    liar = Liar(name, tmp_path)
    assert CurrentPublication.read(liar.task, liar.said).queries()  # the honest plan is followed
    view = CurrentPublication.read(liar.task, liar.sign(batches=LIES[lie](liar)))
    if lie == "a batch more":
        assert view.queries()  # of the running one, which is as it was
        with pytest.raises(BandannaError):
            check_announced(liar.task, view.content["state"], view.batches)
        return
    with pytest.raises(BandannaError, match="another plan"):
        view.queries()


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("name", ["shuffle", "gaussian", "concurrent"])
def test_a_shuffler_closes_no_other_batch(name: str, lie: str, tmp_path: Path) -> None:
    liar = Liar(name, tmp_path)
    shuffler = shuffler_of(liar)
    honest = shuffler.plan()
    assert honest is not None
    assert honest[0] == liar.inside.processor.now.batches
    shuffler._number = None
    liar.sign(batches=LIES[lie](liar))
    with pytest.raises(BandannaError):
        shuffler.plan()


def test_the_mixer_without_noise_is_a_mixer(tmp_path: Path) -> None:
    liar = Liar("shuffle", tmp_path)
    told = _quiet(liar)[0]["rounds"][0]["parts"][0]["mixer"]
    assert make_mixer_encoding().loads(told).least == 1
    assert make_mixer_encoding().loads(liar.honest["batches"][0]["rounds"][0]["parts"][0]["mixer"]).least == 20


def test_a_publication_of_another_analyzer_or_chain_is_refused(tmp_path: Path) -> None:
    liar = Liar("shuffle", tmp_path)
    before = CurrentPublication.read(liar.task, liar.sign(number=3))
    said = liar.said
    document = said.document
    refused: dict[str, SignedPublication] = {
        "nobody's": said._replace(signature=""),
        "another's": said._replace(signature=sign(signing_key()[0], liar.task.id, "publication", document)),
        "changed": said._replace(document=document.replace(b'"number":3', b'"number":4')),
        "older": liar.sign(number=2),
        "forked": liar.sign(number=3, status="finished"),
        "another history": liar.sign(number=4, previous=digest(b"another")),
        "another task": liar.sign(number=4, task=digest(b"another")),
    }
    for said in refused.values():
        with pytest.raises(BandannaError):
            CurrentPublication.read(liar.task, said, before)
    assert CurrentPublication.read(liar.task, liar.sign(number=4, previous=before.chain), before).number == 4


@pytest.mark.parametrize(
    "changes",
    [{"number": "3"}, {"number": -1}, {"number": None}, {"number": 1.5}, {"number": True}, {"round": -1},
     {"epoch": -1}, {"batches": {}}, {"batches": None}, {"answers": 3}, {"state": 7},
     {"previous": None}, {"status": ["running"]}],
)  # fmt: skip
def test_a_malformed_publication_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    liar = Liar("shuffle", tmp_path)
    with pytest.raises(BandannaError):
        CurrentPublication.read(liar.task, liar.sign(**changes))
    for missing in changes:
        content = dumps({name: value for name, value in liar.honest.items() if name != missing})
        with pytest.raises(BandannaError):
            CurrentPublication.read(liar.task, signed(liar.task.id, liar.secrets, content))


@pytest.mark.parametrize("changes", [{"round": 9}, {"batches": []}])
def test_a_round_that_does_not_exist_is_not_answered(changes: dict[str, Any], tmp_path: Path) -> None:
    liar = Liar("shuffle", tmp_path)
    with pytest.raises(BandannaError):
        CurrentPublication.read(liar.task, liar.sign(**changes)).queries()


@pytest.mark.parametrize("state", ["null", "3", "[]", '{"no": "state"}', "not JSON"])
def test_a_shuffler_takes_no_state_of_another_kind(state: str, tmp_path: Path) -> None:
    liar = Liar("shuffle", tmp_path)
    with pytest.raises(BandannaError):
        check_announced(liar.task, state, liar.inside.processor.now.batches)


class Slow(ThreadingHTTPServer):
    """A collector that answers "early" twice."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.bodies: list[bytes] = []
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class Answering(BaseHTTPRequestHandler):
    server: Slow

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        early = len(self.server.bodies) < 3
        said = {"results": [{"reason": "early", "error": ""}], "reason": "early"} if early else {"places": [4]}
        content = json.dumps(said).encode()
        self.send_response(409 if early else 201)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Slow]:
    slow = Slow()
    yield slow
    slow.shutdown()
    slow.server_close()


def test_an_early_report_is_sent_again(collector: Slow) -> None:
    made, _ = a_task(bd.make("LinTS-LDP", dim=2, horizon=40, batch=10, epsilon=5.0, delta=1e-3), seed=None)
    url = f"http://127.0.0.1:{collector.server_port}"
    task = Task.made({**made.content, "urls": {"analyzer": url, "registrar": url}})
    http = HttpDeployment(task, token="t")
    assert http.upload([b"a record"])[0].place == 4
    assert len(set(collector.bodies)) == 1  # the same bytes
    assert (len(collector.bodies), http.retries) == (3, 2)
    for each in http._calls.values():
        each.close()
