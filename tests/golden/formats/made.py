"""What is saved and sent for one small run of every algorithm: an agent's files, a task document and publications.

Each algorithm has one archive beside this module. `python -m tests.golden.formats` rewrites them.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bandanna.agent.agent import Agent
from bandanna.deployment.analyzer import publication
from bandanna.deployment.client.load_simulation import SimulatedUsers
from bandanna.deployment.messages.canonical import dumps, loads
from bandanna.deployment.task.export import FOLDER
from bandanna.numeric.rng import Streams
from bandanna.policies.base import AssignedArms, Policy
from bandanna.policies.registry import ALGORITHMS
from bandanna.storage import encoding

from ...deployment.inside import Inside, a_task
from ...deployment.simulated import case
from ...policies.conformance.catalogue import CASES

PLACE = Path(__file__).parent
NAMES = "names.txt"  # every stored name of the package
EVERY = (*ALGORITHMS, "LinTS per arm", "Anytime")  # and policies of ours that have no name in the registry
UNDEPLOYABLE = {"RS-OFUL", "AdaC-OFUL"}  # episodes end by single users' features
MOST = 60  # decisions: an episode that is longer is saved before its release
AFTER = 2  # decisions of the next episode
_DATE = (2000, 1, 1, 0, 0, 0)


def archive(name: str) -> Path:
    return PLACE / f"{name.replace(' ', '-')}.zip"


def names() -> str:
    """All stored names of the package, one in a line."""
    ours = (name for name, kind in encoding._KINDS.items() if kind.__module__.startswith("bandanna."))
    return "".join(f"{name}\n" for name in sorted(ours))


def write(name: str) -> None:
    """Play, and write what came of it into the archive of an algorithm."""
    with tempfile.TemporaryDirectory() as place, zipfile.ZipFile(archive(name), "w") as packed:
        folder = Path(place)
        said = saved(name, folder)
        if name not in UNDEPLOYABLE:
            said |= sent(name, folder)
        (folder / "said.json").write_text(json.dumps(said, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        for file in ("agent", "agent.journal", "said.json", "task.json", *sorted(folder.glob(f"{FOLDER}/*.json"))):
            path = folder / file
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(folder).as_posix(), date_time=_DATE)
                packed.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def problem(name: str) -> tuple[Policy[Any], Any, Any]:
    """A policy, its environment, and its arms where they stay."""
    if name in ALGORITHMS:
        return case(name)[:3]
    return CASES[name].policy, CASES[name].env, None


def saved(name: str, folder: Path) -> dict[str, Any]:
    """Save an agent after its first release, or in the middle of a long episode; what it says of itself."""
    policy, env, arms = problem(name)
    agent = Agent(policy=policy, test=True, seed=0, arms=arms)
    world = env.begin(Streams([0]))
    while agent.decisions < MOST and not agent.releases:
        decide(agent, world)
    for _ in range(AFTER):
        decide(agent, world)
    agent.save(folder / "agent")
    return facts(agent)


def decide(agent: Agent, world: Any) -> None:
    """Decide for one user, and observe a reward where one user answers for oneself."""
    stay = agent._runner.arms
    contexts = None if world.fixed and stay is not None else world.contexts(agent.decisions, 1)[0, 0]
    decision = agent.act(contexts if stay is None else contexts[0] if stay.of_users else None)
    if not isinstance(agent._runner.now.batch.episode, AssignedArms) or agent._runner.now.batch.clients is None:
        agent.observe(decision.id, 0.25 * (agent.decisions % 4))


def facts(agent: Agent) -> dict[str, Any]:
    spent = None if agent.ledger is None else float(agent.ledger.spent())
    return {"decisions": agent.decisions, "releases": agent.releases, "late": agent.late, "spent": spent}


def sent(name: str, folder: Path) -> dict[str, Any]:
    """Write a task document and its publications, as `bandanna task export` does; what there is."""
    policy, env, arms = problem(name)
    task, secrets = a_task(policy, arms=arms, seed=None)
    (folder / "roles").mkdir()
    inside = Inside(task, secrets, folder / "roles")
    SimulatedUsers(task, inside, env, rounds=AFTER, concurrency=1, wait=20.0).run()
    with inside.processor._database.reading() as rows:
        shown = [
            publication.read_publication_row(rows, number) for number in range(min(inside.processor.number, 1) + 1)
        ]
    (folder / FOLDER).mkdir()
    (folder / "task.json").write_bytes(task.document)
    for number, each in enumerate(shown):
        plain: Mapping[str, Any] = {
            "document": loads(each.document), "signature": each.signature, "cosignature": each.cosignature
        }  # fmt: skip
        (folder / FOLDER / f"{number:06d}.json").write_bytes(dumps(plain) + b"\n")
    return {"publications": len(shown), "light": task.content["device"] is not None}


def unpacked(name: str, folder: Path) -> dict[str, Any]:
    """Put the files of an algorithm into a folder, for their owner alone; what was said when they were written."""
    with zipfile.ZipFile(archive(name)) as packed:
        packed.extractall(folder)
    for path in folder.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    said: dict[str, Any] = json.loads((folder / "said.json").read_text(encoding="utf-8"))
    return said
