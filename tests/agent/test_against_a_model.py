"""An agent against a model of a few lines: any sequence of decisions, rewards, saves, crashes and returns."""

from __future__ import annotations

import tempfile
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

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
from bandanna.agent.agent import Agent
from bandanna.errors import BandannaError, BudgetExceeded, ConflictingRelease, InvalidArgument

pytestmark = pytest.mark.filterwarnings("ignore::bandanna.errors.LateRewardWarning")  # rewards are late on purpose

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
