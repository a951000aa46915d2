"""The shuffler's HTTP service."""

from __future__ import annotations

from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from bandanna.deployment.calls import RoleConnection
from bandanna.deployment.collector import SCHEMA, Collector
from bandanna.deployment.collector_worker import CollectorRoutes, CollectorThread, compute_limits
from bandanna.deployment.http.application import build_application
from bandanna.deployment.http.limits import host_from_url
from bandanna.deployment.http.metrics import EventLog
from bandanna.deployment.http.requests import run_in_thread
from bandanna.deployment.messages.canonical import COLLECTOR, sign
from bandanna.deployment.shuffler import Shuffler
from bandanna.deployment.task.document import Secrets, Task, check_announced
from bandanna.deployment.task.query_plan import first_batches
from bandanna.device.noise import SecureNoise
from bandanna.storage.database.base import open_database


def build_shuffler(task: Task, secrets: Secrets, *, database: str, log: EventLog, verify_tls: Any = True) -> Any:
    """The application of a task's shuffler."""
    assert task.policy is not None  # what mixers are made of is known when the policy is loaded
    rows = open_database(database, role="shuffler", schema=SCHEMA)
    rows.claim()
    metrics, source = CollectorRegistry(), SecureNoise()
    collector = Collector(
        rows,
        task_id=task.id,
        task=task.digest,
        key=secrets.ticket_key(task, COLLECTOR),
        grace=float(task.content["grace"]),
        answered=task.content["close"] == "answered",
        finish=lambda mixer, held: mixer.drawn(held, source),
    )
    helper = RoleConnection(task.url("helper"), verify_tls=verify_tls) if task.mixers == 2 else None
    shuffler = Shuffler(
        collector,
        task_id=task.id,
        analyzer=RoleConnection(task.url("analyzer"), verify_tls=verify_tls),
        helper=helper,
        sign=partial(sign, secrets.sign, task.id),
        analyzer_key=task.key("analyzer"),
        registrar_key=task.key("registrar"),
        check=partial(check_announced, task),
    )
    pump = CollectorThread(collector, forward=shuffler.forward, plan=shuffler.plan, log=log)
    routes = CollectorRoutes(collector, task.id, metrics)

    async def start() -> None:
        pump.start()

    async def stop() -> None:
        await run_in_thread(pump.stop)
        rows.close()

    return build_application(
        role="shuffler",
        routes=routes.routes,
        uploads=routes.uploads,
        public=routes.public,
        names=[host_from_url(task.url("shuffler"))],
        start=start,
        stop=stop,
        health=lambda: {"ok": not pump.failing, "failing": pump.failing or None, "task": shuffler.status},
        status=collector.progress,
        metrics=metrics,
        log=log,
        token=secrets.token,
        database=lambda: rows,
        limits=compute_limits(first_batches(task.policy, task.arms, mixers=task.mixers, seeded=task.seed is not None)),
    )
