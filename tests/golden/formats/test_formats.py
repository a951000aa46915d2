"""The formats of files and messages are those that were written once: everybody's saves and tasks go on.

A change of a format rewrites the archives, by `python -m tests.golden.formats`, in a commit that says so.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bandanna.agent.agent import Agent
from bandanna.deployment.client.device_logic import ClientTask, DocumentDevice, _decode_snapshot
from bandanna.deployment.messages.batch_plan import Batch
from bandanna.deployment.task.document import Task
from bandanna.deployment.task.export import verify_folder
from bandanna.deployment.task.query_plan import VerifiedPublication
from bandanna.device.action_selection import AssignedSelector
from bandanna.numeric.rng import Streams
from bandanna.policies.registry import make_encoding, make_save_format
from bandanna.protocols.factory import make_mixer_encoding

from . import made

pytestmark = [pytest.mark.filterwarnings("ignore")]  # of weak budgets, which make small runs
each = pytest.mark.parametrize("name", made.EVERY)


def test_every_stored_name_stays() -> None:
    """No name that may stand in a file is missing, and a new one is added to the list."""
    assert (made.PLACE / made.NAMES).read_text(encoding="utf-8") == made.names()


def test_there_is_an_archive_for_every_algorithm() -> None:
    archives = {path.name: path.stat().st_size for path in made.PLACE.glob("*.zip")}
    assert set(archives) == {made.archive(name).name for name in made.EVERY}
    assert sum(archives.values()) < 300_000


@each
def test_a_save_is_loaded_and_goes_on(name: str, tmp_path: Path) -> None:
    said = made.unpacked(name, tmp_path)
    agent = Agent.load(tmp_path / "agent")
    assert made.facts(agent) == pytest.approx({key: said[key] for key in ("decisions", "releases", "late", "spent")})
    saves = make_save_format()
    assert saves.text_of(saves.read(tmp_path / "agent")) == (tmp_path / "agent").read_text(encoding="utf-8")
    made.decide(agent, made.problem(name)[1].begin(Streams([0])))
    assert agent.decisions == said["decisions"] + 1
    agent.save(tmp_path / "again")
    assert Agent.load(tmp_path / "again").decisions == agent.decisions


@pytest.mark.parametrize("name", [name for name in made.EVERY if name not in made.UNDEPLOYABLE])
def test_a_task_and_its_publications_are_read(name: str, tmp_path: Path) -> None:
    said = made.unpacked(name, tmp_path)
    task, publications = verify_folder(tmp_path)
    assert len(publications) == said["publications"] > 0
    policy, encoding = task.policy, make_encoding()
    assert type(policy) is type(made.problem(name)[0])
    assert encoding.dumps(encoding.loads(task.content["policy"])) == task.content["policy"]
    for one in publications:
        published = VerifiedPublication(content=one.content)
        assert type(published.state) is type(policy.init(None if task.arms is None else task.arms.features))
        for part in ("state", "snapshot"):
            assert encoding.dumps(encoding.loads(one.content[part])) == one.content[part]
        for batch, plain in zip(published.batches, one.content["batches"], strict=True):
            assert json.loads(json.dumps(batch.to_dict())) == json.loads(json.dumps(plain))
            _check_mixers(batch)


def _check_mixers(batch: Batch) -> None:
    """Mixers of a plan are written as they were read."""
    for text in (part.mixer for round_ in batch.rounds for part in round_.parts):
        assert text is None or make_mixer_encoding().dumps(make_mixer_encoding().loads(text)) == text


@pytest.mark.parametrize("name", [name for name in made.EVERY if name not in made.UNDEPLOYABLE])
def test_a_light_client_reads_the_task(name: str, tmp_path: Path) -> None:
    said = made.unpacked(name, tmp_path)
    leaflet, task = ClientTask.read(tmp_path), Task.read(tmp_path)
    assert leaflet.id == task.id
    assert said["light"] == (leaflet.device is not None)
    if leaflet.device is None:
        return
    guide, content = DocumentDevice(leaflet), verify_folder(tmp_path)[1][-1].content
    batch = guide.batch(content, 0)
    assert guide._devices(batch, 0)
    assert guide._tells
    if not isinstance(guide._chooser, AssignedSelector):
        assert np.shape(_decode_snapshot(content["snapshot"]).theta)[-1] >= guide.dim
