"""Everything public about a task, as files: from an analyzer that is honest, and from some that are not."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import bandanna as bd
from bandanna.cli.main import app
from bandanna.deployment.analyzer import publication
from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.deployment.messages.canonical import dumps, encode_base64url, loads
from bandanna.deployment.messages.publication import SignedPublication
from bandanna.deployment.task.document import Secrets, Task
from bandanna.deployment.task.export import describe_progress, export_task, fetch_progress, verify_folder
from bandanna.errors import BandannaError
from bandanna.simulation.environments.linear import LinearContextual

from ..deployment.inside import Inside, a_task, headers_of, shown, signed

POLICY = {"dim": 2, "horizon": 60, "epsilon": 5.0, "delta": 1e-3, "batch": 20}


class Analyzer:
    """The processor of a task without sockets, behind the routes of an analyzer; `replaced` are its lies."""

    def __init__(self, task: Task, inside: Inside, secrets: dict[str, Secrets]) -> None:
        self.task, self.inside = task, inside
        self.secrets = secrets
        self.replaced: dict[str, SignedPublication] = {}
        self.url = ""
        self.asked: list[str] = []

    def play(self, users: int) -> None:
        SimulatedUsers(self.task, self.inside, LinearContextual(dim=2, n_arms=3), rounds=users).run()
        self.inside.pump()

    def answer(self, path: str) -> SignedPublication:
        self.asked.append(path)
        if path in self.replaced:
            return self.replaced[path]
        if path == "/task":
            return SignedPublication(self.task.document, "", "")
        head, processor = f"/tasks/{self.task.id}", self.inside.processor
        if path == f"{head}/ledger":
            return SignedPublication(dumps({"task": self.task.id, "ledger": processor.ledger_view()}), "", "")
        number = None if path == f"{head}/snapshot" else int(path.removeprefix(f"{head}/snapshot/"))
        with processor._database.reading() as rows:
            return shown(publication.read_publication_row(rows, number))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Analyzer]:
    task, secrets = a_task(bd.make("LinTS-SDP", **POLICY))
    made = Analyzer(task, Inside(task, secrets, tmp_path_factory.mktemp("roles")), secrets)
    made.play(40)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = made.answer(self.path)
            self.send_response(200)
            for name, value in headers_of(found).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(found.document)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made.url = f"http://127.0.0.1:{server.server_port}"
        yield made
        server.shutdown()


@pytest.fixture
def analyzer(served: Analyzer) -> Analyzer:
    """Which has not lied yet, and of which nobody has asked anything."""
    served.replaced.clear()
    served.asked.clear()
    return served


def test_everything_public_is_exported_and_can_be_checked_without_the_analyzer(
    analyzer: Analyzer, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    made = export_task(analyzer.url + "/", out)
    task, kept = verify_folder(out)
    assert task.id == analyzer.task.id
    assert [each.number for each in kept] == list(range(made.newest.number + 1))
    assert made.fresh == len(kept) >= 3
    assert kept[-1].chain == analyzer.inside.processor.published.chain
    ledger = json.loads((out / "ledger.json").read_text())["ledger"]
    assert ledger["spent"] == kept[-1].content["spent"] == made.newest.content["spent"]
    assert len(ledger["entries"]) == 2


def test_an_export_goes_on_where_it_was(analyzer: Analyzer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = export_task(analyzer.url, out)
    assert export_task(analyzer.url, out).fresh == 0
    (out / "publications" / f"{before.newest.number:06d}.json").unlink()
    analyzer.asked.clear()
    assert export_task(analyzer.url, out).fresh == 1
    assert not [path for path in analyzer.asked if path.endswith("/snapshot/0")]
    assert len(verify_folder(out)[1]) == before.newest.number + 1


def test_an_interrupted_export_is_completed(analyzer: Analyzer, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_task(analyzer.url, out, progress=stop)
    assert len(verify_folder(out)[1]) == 1
    assert export_task(analyzer.url, out).fresh >= 2


def sign_publication(analyzer: Analyzer, document: bytes) -> SignedPublication:
    return signed(analyzer.task.id, analyzer.secrets, document)


def lie(analyzer: Analyzer, number: int, change: Any) -> None:
    """A publication of the analyzer with other content, under the old signatures or right ones."""
    path = f"/tasks/{analyzer.task.id}/snapshot/{number}"
    analyzer.replaced[path] = change(analyzer.answer(path))


def test_lies_of_an_analyzer_are_refused(analyzer: Analyzer, tmp_path: Path) -> None:

    def other_chain(true: SignedPublication) -> SignedPublication:
        return sign_publication(analyzer, dumps({**loads(true.document), "previous": encode_base64url(bytes(32))}))

    first = analyzer.answer(f"/tasks/{analyzer.task.id}/snapshot/0")
    cases: list[tuple[Any, str]] = [
        (lambda true: true._replace(document=true.document.replace(b"running", b"RUNNING")), "has not signed"),
        (lambda true: first, "publication 0 where 1 belongs"),
        (other_chain, "does not follow the one before it"),
        (lambda true: sign_publication(analyzer, true.document + b" "), "canonical"),
        (lambda true: true._replace(cosignature=""), "publication 1 is not cosigned by the task's registrar"),
        (lambda true: true._replace(cosignature=first.cosignature), "publication 1 is not cosigned"),
    ]
    for number, (change, words) in enumerate(cases):
        analyzer.replaced.clear()
        lie(analyzer, 1, change)
        out = tmp_path / str(number)
        with pytest.raises(BandannaError, match=words):
            export_task(analyzer.url, out)
        assert len(verify_folder(out)[1]) == 1


def test_an_analyzer_that_has_gone_back_is_noticed(analyzer: Analyzer, tmp_path: Path) -> None:
    out, head = tmp_path / "out", f"/tasks/{analyzer.task.id}"
    export_task(analyzer.url, out)
    older = analyzer.answer(f"{head}/snapshot/1")
    analyzer.replaced[f"{head}/snapshot"] = older
    with pytest.raises(BandannaError, match="gone back to publication 1"):
        export_task(analyzer.url, out)
    last = analyzer.inside.processor.published
    content = dumps({**loads(last.document), "spent": 0.0})
    analyzer.replaced[f"{head}/snapshot"] = sign_publication(analyzer, content)
    with pytest.raises(BandannaError, match="shows different histories"):
        export_task(analyzer.url, out)


def test_a_ledger_that_contradicts_the_signed_sum_is_refused(analyzer: Analyzer, tmp_path: Path) -> None:
    view = analyzer.inside.processor.ledger_view()
    assert view is not None
    false = dumps({"task": analyzer.task.id, "ledger": {**view, "spent": 0.1}})
    analyzer.replaced[f"/tasks/{analyzer.task.id}/ledger"] = SignedPublication(false, "", "")
    with pytest.raises(BandannaError, match=r"the ledger says that 0\.1 was spent"):
        export_task(analyzer.url, tmp_path / "out")
    assert not (tmp_path / "out" / "ledger.json").exists()


def test_changed_files_of_an_export_are_refused(analyzer: Analyzer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_task(analyzer.url, out)
    file = out / "publications" / "000001.json"
    text = file.read_text()
    for changed, words in (
        (text.replace('"epoch":1', '"epoch":9'), "has not signed"),
        (dumps({**json.loads(text), "cosignature": ""}).decode(), "is not cosigned"),
        ("{}", "other fields"),
        ("no json", "not a document"),
        ((out / "publications" / "000000.json").read_text(), "publication 0 where 1 belongs"),
    ):
        file.write_text(changed)
        with pytest.raises(BandannaError, match=words):
            export_task(analyzer.url, out)
    file.unlink()
    with pytest.raises(BandannaError, match="one is missing before it"):
        verify_folder(out)


def test_another_task_is_not_mixed_in(analyzer: Analyzer, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    other, _ = a_task(bd.make("LinTS-SDP", **POLICY))
    (out / "task.json").write_bytes(other.document)
    with pytest.raises(BandannaError, match="holds another task"):
        export_task(analyzer.url, out)


def test_how_far_a_task_is_can_be_seen(analyzer: Analyzer, tmp_path: Path) -> None:
    now = fetch_progress(analyzer.task, analyzer.url)
    assert now is not None
    published = loads(analyzer.inside.processor.published.document)
    assert now == {
        "status": "running", "publication": published["number"], "epoch": 2, "round": 0, "spent": published["spent"]
    }  # fmt: skip
    assert describe_progress(now).startswith(
        f"Running. {now['publication']} releases published. Collecting batch 2. Epsilon spent: "
    )
    assert "Nothing more" in describe_progress({**now, "status": "finished", "spent": None})
    assert fetch_progress(analyzer.task, str(tmp_path)) is None
    analyzer.replaced[f"/tasks/{analyzer.task.id}/snapshot"] = shown(analyzer.inside.processor.published)._replace(
        signature="forged"
    )
    with pytest.raises(BandannaError, match=r"does not report the progress of the task: .*has not signed"):
        fetch_progress(analyzer.task, analyzer.url)


def test_the_export_command_prints_what_it_did(
    analyzer: Analyzer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["task", "export", "--task", analyzer.url, "--out", "kept"])
    assert done.exit_code == 0, done.output
    assert "all signatures and the chain are valid" in done.stdout
    again = CliRunner().invoke(app, ["task", "export", "--task", analyzer.url, "--out", "kept", "--json"])
    told = json.loads(again.stdout)
    assert (told["new"], told["publications"]) == (0, len(verify_folder(tmp_path / "kept")[1]))
