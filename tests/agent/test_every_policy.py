"""Every algorithm of the catalogue in an agent: it decides as in the simulator, and survives saves at any moment."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import bandanna as bd
from bandanna.agent import episodes
from bandanna.agent.agent import Agent
from bandanna.device.noise import FastNoise
from bandanna.errors import BandannaError, BudgetExceeded, ConflictingRelease, InvalidArgument
from bandanna.numeric.rng import StreamRandomness, Streams
from bandanna.policies.base import AssignedArms, PlayedRounds, Policy
from bandanna.policies.registry import ALGORITHMS
from bandanna.simulation.environments.base import Environment
from bandanna.simulation.players import reference
from bandanna.simulation.result import Tally, checkpoints_for

from ..policies.conformance.catalogue import CASES, UNNAMED
from ..simulation.golden_runs import RUNS
from ..simulation.golden_runs import made as golden

pytestmark = pytest.mark.filterwarnings("ignore::bandanna.errors.LateRewardWarning")  # rewards are late on purpose


CONTEXTS = {name: envs[-1] if name.startswith("Lin") or "OFUL" in name else envs[0] for name, (_, envs) in RUNS.items()}
ROUNDS = {"DP-SE": 2000, "SDP-SE": 2000, "GOPE": 1500, "AdaC-GOPE": 1500, "AdaC-GOPE-early": 1500, "GLM-JDP": 120}
NAMES = [name for name in RUNS if not isinstance(CONTEXTS[name], bd.environments.Population)]
PEOPLE = [name for name in RUNS if isinstance(CONTEXTS[name], bd.environments.Population)]


# as others of their class, with other noise: what every noise leaves behind is saved in `test_saving.py`
REPEATED = {
    "LinTS",
    "LinTS-LDP",
    "LinTS-SDP",
    "LinTS-SDP-rewards",
    "LinUCB-JDP-batched",
    "LinUCB-LDP-batched",
    "LinUCB-SDP-Amp",
    "UCB-episodes",
    "AdaP-UCB",
    "SDP-SE",
    "GOPE",
    "AdaC-GOPE-early",
    "RS-OFUL",
    "CDP-DPE",
    "LDP-DPE",
    "Laplace-DPE",
    "DPE-FixedU",
}


def test_every_algorithm_has_a_case() -> None:
    assert set(NAMES) | set(PEOPLE) == set(ALGORITHMS)


def made(name: str) -> Policy[Any]:
    """One of the catalogue, or one that has no name."""
    return golden(name) if name in RUNS else CASES[name].policy


def some(policy: Any, rng: np.random.Generator) -> Any:
    """Features of four arms; where the policy says so, with a constant."""
    drawn = rng.normal(size=(4, policy.dim)) / 5
    drawn[:, -1] = np.where(getattr(policy, "intercept", False), 0.5, drawn[:, -1])
    return drawn


def recorded(policy: Policy[Any], monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[int], list[float]]]:
    """Whatever episodes will be learned from: arms and rewards of their users, in order."""
    seen: list[tuple[list[int], list[float]]] = []
    genuine = type(policy).report

    def report(self: Any, query: Any, played: PlayedRounds, coins: Any) -> Any:
        if query.group == "episode":
            arms = [] if played.arms is None else np.ravel(played.arms).tolist()
            seen.append((arms, np.ravel(played.rewards).tolist()))
        return genuine(self, query, played, coins)

    monkeypatch.setattr(type(policy), "report", report)
    return seen


def as_in_a_simulation(agent: Agent, streams: Streams, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and coins are those of a simulated seed."""
    agent._runner.source = FastNoise(streams.generators(agent.policy.execution.noise_stream)[0])
    monkeypatch.setattr(episodes, "NumberedRandomness", lambda seed, number: StreamRandomness(streams).of(0))


@pytest.mark.often(when=lambda name: name not in REPEATED)
@pytest.mark.parametrize("name", [*NAMES, *(case.key for case in UNNAMED)])
def test_simulator_and_agent_learn_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, rounds = made(name), ROUNDS.get(name, 100)
    env, rounds = (CONTEXTS[name], rounds) if name in RUNS else (CASES[name].env, min(rounds, policy.horizon or rounds))
    one_source = replace(policy.execution, stream_noise=None)  # as an agent has
    monkeypatch.setattr(type(policy), "execution", one_source)
    simulated, streams = recorded(policy, monkeypatch), Streams([11])
    tally = Tally(checkpoints=checkpoints_for(rounds, 10), n_seeds=1)
    reference.play_reference(policy, env.begin(streams), tally, rounds, path="messages")
    expected, streams = list(simulated), Streams([11])
    simulated.clear()
    world, agent = env.begin(streams), agent_in(policy, env)
    as_in_a_simulation(agent, streams, monkeypatch)
    arms = world.contexts(0, 1)[0, 0] if world.fixed else None
    means = world.means(world.contexts(0, 1))[0, 0] if world.fixed else None
    for number in range(rounds):
        if not world.fixed:
            contexts = world.contexts(number, 1)
            arms, means = contexts[0, 0], world.means(contexts)[0, 0]
        stay = agent._runner.arms
        decision = agent.act(arms) if stay is None else agent.act(arms[0]) if stay.of_users else agent.act()
        assert agent.observe(decision.id, float(world.rewards(means[None, decision.arm, None])[0, 0]))
    agent.close()
    assert agent.releases
    assert simulated[: len(expected)] == expected
    assert agent.missing == agent.late == 0


def agent_in(policy: Policy[Any], env: Environment) -> Agent:
    """For tests; arms that stay are given where the policy plans with them."""
    arms = env.begin(Streams([11])).contexts(0, 1)[0, 0] if isinstance(policy, bd.policies.GOPE) else None
    return Agent(policy=policy, test=True, seed=0, arms=arms)


@pytest.mark.parametrize("name", PEOPLE)
def test_a_population_is_asked_alike(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, env, rounds = made(name), CONTEXTS[name], 300
    reports = recorded(policy, monkeypatch)
    bd.simulate(policy, env, n_seeds=1, seed=11, path="messages", horizon=rounds)
    expected, streams = list(reports), Streams([11])
    reports.clear()
    world = env.begin(streams)
    agent = Agent(policy=policy, test=True, seed=0, arms=world.arms[0])
    as_in_a_simulation(agent, streams, monkeypatch)
    answers: dict[int, list[float]] = {}
    for _ in range(rounds):
        due = agent._runner.due(0, agent.decisions)
        batch = due or agent._runner.now.batch
        if due is not None or agent.decisions == 0:
            agent.release_due()
            batch = agent._runner.now.batch
            assert isinstance(batch.episode, AssignedArms)
            answers = asked(world, batch.episode, rounds - agent.decisions)
            clients = [agent.recruit() for _ in range(agent.clients_wanted)]
            first = dict.fromkeys(batch.episode.arms.tolist(), True)
        decision = agent.act()
        if batch.clients is None:
            agent.observe(decision.id, answers[decision.arm].pop(0))
        elif first.pop(decision.arm, False):  # the average of one number
            for client, average in zip(clients, answers[decision.arm], strict=True):
                assert agent.observe(decision.id, average, client=client)
    agent.close()
    assert len(expected) > 3
    assert reports == expected


def asked(world: Any, episode: AssignedArms, left: int) -> dict[int, list[float]]:
    """What the clients of an episode will say of every arm, drawn as the simulator draws it."""
    arms = world.arms[0][episode.arms]
    if episode.users > left:
        return {int(arm): [0.0] * left if episode.clients is None else [0.0] * episode.clients for arm in episode.arms}
    if episode.clients is None:
        once, drawn = np.ones(1, dtype=np.int64), {}
        for place, (arm, plays) in enumerate(zip(arms, episode.plays, strict=True)):
            blocks = world.clients(0, arm[None], once, int(plays), each=True)
            drawn[int(episode.arms[place])] = [float(x) for block in blocks for x in block[:, 0]]
        return drawn
    averages = np.concatenate(list(world.clients(0, arms, episode.plays, episode.clients, each=True)))
    return {int(arm): averages[:, place].tolist() for place, arm in enumerate(episode.arms)}


@pytest.mark.often(when=lambda name, every: name not in REPEATED and every == 15)
@pytest.mark.parametrize("every", [15, 7])
@pytest.mark.parametrize("name", RUNS)
def test_saved_and_loaded_it_goes_on(name: str, every: int, tmp_path: Path) -> None:
    policy, env = made(name), CONTEXTS[name]
    population = name in PEOPLE
    arms = env.begin(Streams([3])).contexts(0, 1)[0, 0] if isinstance(policy, bd.policies.GOPE) else None
    if population:
        arms = env.begin(Streams([3])).arms[0]
    whole, parts = (Agent(policy=policy, test=True, seed=5, arms=arms, grace=2) for _ in range(2))
    rng, save = np.random.default_rng(0), tmp_path / "agent"
    clients: list[tuple[str | None, str | None]] = []
    for number in range(60):
        contexts = None if whole._runner.arms is not None else some(policy, rng)
        assert whole.clients_wanted == parts.clients_wanted
        while whole.clients_wanted:
            clients.append((whole.recruit(), parts.recruit()))
        one, two = whole.act(contexts), parts.act(contexts)
        assert (one.arm, one.episode, one.id) == (two.arm, two.episode, two.id)
        np.testing.assert_equal(one.probability, two.probability)
        reward = float(rng.random())
        if population:
            for client in clients[-3:]:
                assert whole.observe(one.id, reward, client=client[0]) == parts.observe(
                    two.id, reward, client=client[1]
                )
        if number % 4 and not clients:
            assert whole.observe(one.id, reward) == parts.observe(two.id, reward)
        if number % every == 3:
            parts.save(save)
            parts = Agent.load(save)
    assert whole.releases == parts.releases
    assert (whole.late, whole.missing, whole.clipped) == (parts.late, parts.missing, parts.clipped)
    encoded = whole._encoding.dumps
    assert encoded(whole._runner.progress.note()) == encoded(parts._runner.progress.note())
    contexts = None if whole._runner.arms is not None else some(policy, rng)
    assert whole.recommend(contexts) == parts.recommend(contexts)
    assert whole.recommend(contexts, explore=True) == parts.recommend(contexts, explore=True)


# An agent against a model of a few lines: any sequence of decisions, rewards, saves, crashes and returns


BATCH, GRACE, HORIZON, TIMES = 3, 2, 32, 2
POLICY = bd.LinUCB(dim=2, horizon=HORIZON, batch=BATCH, privacy=bd.local(epsilon=1.0, delta=1e-5, participations=TIMES))
ARMS = np.array([[0.3, 0.1], [0.1, 0.4]])


@dataclass
class Model:
    """Open slots by number: [user, id, answered]; users of released batches; counts."""

    made: int = 0
    released: int = 0
    late: int = 0
    missing: int = 0
    over: bool = False
    slots: dict[int, list] = field(default_factory=dict)
    past: list[str] = field(default_factory=list)

    def close(self, grace: int) -> None:
        """Release the batches that are due."""
        while (self.released + 1) * BATCH + grace <= self.made and (self.released + 1) * BATCH <= HORIZON:
            for number in range(self.released * BATCH, (self.released + 1) * BATCH):
                user, _, answered = self.slots.pop(number)
                self.past.append(user)
                self.missing += not answered
            self.released += 1

    def refuses(self, user: str) -> bool:
        """Whether a user may not decide now."""
        present = [slot[0] for number, slot in self.slots.items() if number // BATCH == self.made // BATCH]
        times = self.past.count(user) + sum(slot[0] == user for slot in self.slots.values())
        released = self.made < HORIZON - HORIZON % BATCH  # what is left of the horizon is not, and nobody pays for it
        return released and (times >= TIMES or user in present)

    def skip(self, ahead: Model) -> None:
        """What was released after this state was saved."""
        for batch in range(self.released, ahead.released):
            for number in range(batch * BATCH, (batch + 1) * BATCH):
                self.slots.pop(number, None)
        self.released, self.past, self.missing = ahead.released, ahead.past, ahead.missing
        self.made = max(self.made, self.released * BATCH)


class AgentMachine(RuleBasedStateMachine):
    """Whatever happens, agent and model agree."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "agent"
        self.ids: list[tuple[int, str]] = []

    @initialize()
    def begin(self) -> None:
        """A new agent."""
        self.agent = Agent(policy=POLICY, grace=GRACE)
        self.model, self.saved = Model(), None
        self.journal: list[float] = []

    @rule(user=st.integers(0, 15).map(str))
    def act(self, user: str) -> None:
        """Decide, or be refused."""
        if self.model.over or self.model.made >= HORIZON:
            with pytest.raises(BandannaError):
                self.agent.act(ARMS, user=user)
        elif self.model.refuses(user):
            with pytest.raises(BudgetExceeded):
                self.agent.act(ARMS, user=user)
        else:
            self.model.close(GRACE)
            decision = self.agent.act(ARMS, user=user)
            assert decision.episode == self.model.made // BATCH
            self.model.slots[self.model.made] = [user, decision.id, False]
            self.ids.append((self.model.made, decision.id))
            self.model.made += 1

    @precondition(lambda self: self.ids)
    @rule(data=st.data())
    def observe(self, data: st.DataObject) -> None:
        """Any decision that was ever made is answered, perhaps again, perhaps too late, perhaps after a crash."""
        number, name = data.draw(st.sampled_from(self.ids))
        slot = self.model.slots.get(number)
        if self.model.over or slot is None or slot[1] != name:
            assert not self.agent.observe(name, 1.0)
            self.model.late += 1
        elif slot[2]:
            with pytest.raises(InvalidArgument):
                self.agent.observe(name, 1.0)
        else:
            assert self.agent.observe(name, 1.0)
            slot[2] = True

    @rule()
    def save(self) -> None:
        """Save."""
        self.agent.save(self.path)
        self.saved = deepcopy(self.model)

    @precondition(lambda self: self.saved is not None)
    @rule()
    def crash(self) -> None:
        """The process dies; the last save is loaded."""
        self.agent = Agent.load(self.path)
        self.saved.skip(self.model)
        self.model = deepcopy(self.saved)

    @precondition(lambda self: self.model.made > 3 * BATCH)
    @rule()
    def close(self) -> None:
        """No more decisions."""
        if not self.model.over:
            self.model.close(0)
            self.model.over = True
        self.agent.close()

    @invariant()
    def agree(self) -> None:
        """Counts, releases and what was ever released agree; nothing released has changed."""
        if not hasattr(self, "agent"):
            return
        agent, model = self.agent, self.model
        assert (agent.decisions, agent.releases, agent.late) == (model.made, model.released, model.late)
        assert agent.missing == model.missing
        entries = agent._runner.ledger.store.entries()
        totals = [float(entry.release[0].total[0]) for entry in entries]
        assert totals[: len(self.journal)] == self.journal
        self.journal = totals
        assert len(entries) == model.released
        assert agent.ledger.spent() <= 1.0 + 1e-9

    def teardown(self) -> None:
        """Remove the files."""
        self.folder.cleanup()


AgentMachine.TestCase.settings = settings(max_examples=4, stateful_step_count=60, deadline=None, derandomize=True)
TestAgent = AgentMachine.TestCase


@pytest.mark.full
def test_rarer_sequences_agree_with_the_model() -> None:
    run_state_machine_as_test(AgentMachine, settings=settings(max_examples=200, stateful_step_count=60))


def test_the_dead_do_not_release() -> None:
    with tempfile.TemporaryDirectory() as folder:
        first = Agent(policy=POLICY)
        first.save(Path(folder) / "agent")
        second = Agent.load(Path(folder) / "agent")
        for agent in (second, first):
            for user in "abc":
                agent.act(ARMS, user=user)
        second.act(ARMS, user="d")
        with pytest.raises(ConflictingRelease):
            first.act(ARMS, user="d")
