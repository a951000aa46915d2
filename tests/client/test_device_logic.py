"""What light clients send is what the policy's own devices send: the same statistics, sealed and split alike."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.deployment.client.device_logic import ClientTask, DocumentDevice, PlayedArm, ReportSlot
from bandanna.deployment.client.policy_device import PolicyDevice
from bandanna.deployment.messages.canonical import SEED, Opener, expand_mask
from bandanna.deployment.messages.report import Ticket, sealing_info
from bandanna.deployment.task.document import Task
from bandanna.deployment.task.query_plan import make_batch
from bandanna.device.noise import FastNoise
from bandanna.numeric.rng import NumberedRandomness
from bandanna.policies.registry import make_encoding

from ..deployment.inside import a_task
from ..deployment.simulated import case
from .test_session import POLICIES

RNG = np.random.default_rng(8)
TICKET = Ticket(slot=b"0123456789abcdef", epoch=0, collector=b"c" * 16, helper=b"h" * 16)


def published(task: Task, state: Any = None) -> dict[str, Any]:
    """The parts of a publication that guides look at, unsigned."""
    policy = task.policy
    state = policy.init(task.fixed_features) if state is None else state
    episode = policy.episode(state)
    assert episode is not None
    batch, _ = make_batch(policy, state, episode, epoch=0, mixer_count=task.mixers, seeded=False)
    encoding = make_encoding()
    return {
        "number": 0, "epoch": 0, "round": 0, "answers": [], "batches": [batch.to_dict()],
        "state": encoding.dumps(state), "snapshot": encoding.dumps(policy.publish(state)),
    }  # fmt: skip


@pytest.mark.parametrize("trials", [12, pytest.param(40, marks=pytest.mark.full)])
@pytest.mark.parametrize("name", [name for name in POLICIES if "Gaussian" not in name])
def test_a_client_without_policy_acts_and_reports_as_the_policy(name: str, trials: int) -> None:
    policy = POLICIES[name]
    task, _ = a_task(policy, seed=None)
    leaflet = ClientTask.from_bytes(task.document, task.id)
    light, whole = DocumentDevice(leaflet), PolicyDevice(leaflet)
    own = getattr(policy, "n_arms", None)
    for trial in range(trials):
        features = RNG.uniform(-0.9, 0.9, (own or 4, light.dim))
        if own:
            features[:] = features[0]
        elif getattr(policy, "intercept", False):
            features[:, -1] = 1.0
        content = published(task)
        seen = light.clip_features(features)
        np.testing.assert_array_equal(seen, whole.clip_features(features))
        chosen = light.choose(content, seen, NumberedRandomness(trial, 0))
        assert chosen == whole.choose(content, seen, NumberedRandomness(trial, 0))
        assert light.batch(content, 0) == whole.batch(content, 0)
        slot = ReportSlot(batch=light.batch(content, 0), ticket=TICKET, key=None)
        zeros = [guide.zeros(content, 0, slot, _Exact(trial)) for guide in (light, whole)]
        assert zeros[0] == zeros[1]
        given = PlayedArm(features=tuple(seen[chosen[0]].tolist()), arm=chosen[0])
        reward = float(RNG.uniform(-0.2, 1.2))
        finals = [
            guide.final(content, 0, slot, given, reward, _Exact(trial), NumberedRandomness(trial, 0))[0]
            for guide in (light, whole)
        ]
        assert finals[0] == finals[1]
        assert len(finals[0]) == slot.batch.rounds[0].size


@pytest.mark.parametrize("name", ["SDP-SE", "AdaC-UCB"])
def test_a_client_without_policy_reports_the_same_bytes_for_an_assigned_arm(name: str) -> None:
    policy, _, arms, _ = case(name)
    task, _ = a_task(policy, seed=None, arms=arms)
    leaflet = ClientTask.from_bytes(task.document, task.id)
    light, whole = DocumentDevice(leaflet), PolicyDevice(leaflet)
    content = published(task)
    assert light.choose(content, np.zeros((2, 0)), NumberedRandomness(0, 0)) is None
    slot = ReportSlot(batch=light.batch(content, 0), ticket=TICKET, key=None)
    assert whole.batch(content, 0) == slot.batch
    for trial in range(30):
        given = PlayedArm(features=(), arm=slot.batch.arms[trial % len(slot.batch.arms)])
        reward = float(RNG.uniform(-0.2, 1.2))
        zeros, finals = [], []
        for guide in (light, whole):
            zeros.append(guide.zeros(content, 0, slot, _Exact(trial)))
            finals.append(guide.final(content, 0, slot, given, reward, _Exact(trial), NumberedRandomness(trial, 0))[0])
        assert zeros[0] == zeros[1]
        assert finals[0] == finals[1]


def test_an_arm_with_too_few_people_gets_no_report() -> None:
    policy, _, arms, _ = case("SDP-SE")
    task, _ = a_task(policy, seed=None, arms=arms)
    guide, content = DocumentDevice(ClientTask.from_bytes(task.document)), published(task)
    (batch,) = content["batches"]
    plays, parts = batch["plays"], batch["rounds"][0]["parts"]
    others = [
        {**batch, "plays": [1, sum(plays) - 1, *plays[2:]], "slots": sum(plays)},
        {**batch, "plays": [plays[0]] * (len(plays) - 1)},
        {**batch, "slots": batch["slots"] - 1},
        {**batch, "rounds": [{"parts": [parts[0], {**parts[1], "arm": parts[0]["arm"]}, *parts[2:]]}]},
        {**batch, "rounds": batch["rounds"] * 2},
        {**batch, "clients": True},
        {**batch, "arms": [], "plays": []},
    ]
    assert guide.batch(content, 0)
    for told in others:
        with pytest.raises(bd.BandannaError, match="another plan"):
            guide.batch({**content, "batches": [told]}, 0)


class _Exact(FastNoise):
    """Seeded noise in the form of the secure one: integers on the wire."""

    secure = True

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.default_rng(seed))


@pytest.mark.parametrize("name", ["LinTS, shuffle", "LinUCB, concurrent"])
def test_two_shares_of_a_report_are_its_counts(name: str) -> None:
    task, secrets = a_task(POLICIES[name], seed=None, mixers=2)
    guide = DocumentDevice(ClientTask.from_bytes(task.document))
    content = published(task)
    batch = guide.batch(content, 0)
    part = batch.rounds[0].parts[0]
    opener = Opener(secrets["helper"].seal)
    place = ReportSlot(batch=batch, ticket=TICKET, key=task.key("seal helper"))
    given = PlayedArm(features=(0.1, 0.2, 1.0), arm=0)
    from bandanna.device.noise import SecureNoise
    from bandanna.numeric.rng import SecureRandomness

    bodies = [
        *guide.zeros(content, 0, place, SecureNoise()),
        guide.final(content, 0, place, given, 1.0, SecureNoise(), SecureRandomness())[0],
    ]
    seeds = set()
    for body in bodies:
        opened = opener.open(body[8 * part.length :], sealing_info(task.digest, batch, 0, TICKET.slot))
        seed, ticket = opened[:SEED], opened[SEED:]
        assert ticket == TICKET.helper
        seeds.add(seed)
        counts = part.numbers([body])[0] + expand_mask(seed, part.length)
        assert counts.min() >= 0
        assert counts.max() < 2**20
        with pytest.raises(bd.BandannaError):
            opener.open(body[8 * part.length :], sealing_info(task.digest, batch, 0, bytes(16)))
    assert len(seeds) == len(bodies)  # a seed that is used twice unmasks
    assert len({body[: 8 * part.length] for body in guide.zeros(content, 0, place, SecureNoise()) + bodies}) == 3


# A client is light: what a phone or a small service loads has no accountant, no policy and no SciPy


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
    published = Inside(task, secrets, tmp_path).processor.published
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
