"""A client is light: what a phone or a small service loads has no accountant, no policy and no SciPy."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import bandanna as bd

from ..deployment.inside import a_task

PROGRAM = """
import json, sys
import httpx
from bandanna.deployment.client.session import Session; from bandanna.deployment.messages.report import Ticket

def answer(request):
    parts = sys.argv[2:]
    if request.method == "GET":
        return httpx.Response(200, content=parts[0].encode(), headers={"signature": parts[1], "witness": parts[3]})
    count, content = 0, request.content
    while content:
        content, count = content[4 + int.from_bytes(content[:4], "little"):], count + 1
    return httpx.Response(201, json={"places": list(range(count))})

http = httpx.Client(transport=httpx.MockTransport(answer))
ticket = lambda epoch, refused: Ticket(slot=b"s" * 16, collector=b"k" * 16, epoch=epoch)
session = Session(sys.argv[1].encode(), id=sys.argv[4], tickets=ticket, outbox=":memory:", http=http)
decision = session.act([[0.1, 0.2, 1.0], [0.3, 0.1, 1.0]])
print(json.dumps([session.report(decision, 1.0).kept, sorted(sys.modules)]))
"""


def test_a_report_needs_no_accountant_and_no_scipy(tmp_path: Path) -> None:
    from ..deployment.inside import Inside

    privacy = bd.shuffle(epsilon=2.0, delta=1e-4)
    policy = bd.LinTS(dim=3, horizon=64, batch=16, intercept=True, privacy=privacy)
    urls = {role: f"http://{role}.test" for role in ("analyzer", "shuffler", "helper", "registrar")}
    task, secrets = a_task(policy, seed=None, urls=urls)
    published = Inside(task, secrets, tmp_path).learner.published
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM,
            task.document.decode(),
            published.document.decode(),
            published.signature,
            task.id,
            str(published.cosignature),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    kept, modules = json.loads(run.stdout)
    assert kept
    ours = {module.split(".")[1] for module in modules if module.startswith("bandanna.")}
    assert ours == {"_lazy", "deployment", "device", "errors", "numeric", "storage", "types", "validation"}
    assert not {"scipy", "opendp", "dp_accounting", "starlette", "uvicorn", "matplotlib"} & set(modules)
