"""What every policy is: freeze, collect, release, learn - as one interface, for every runner.

    state    = policy.init(arms)
    while True:
        episode  = policy.episode(state)            public: how long nothing changes
        snapshot = policy.publish(state)            public: all that a device needs
        choice   = policy.act(snapshot, contexts, coins)                    on the device
        steps    = policy.learn(state, episode)     yields asks, is sent estimates, returns the next state
        ...        policy.report(ask, played, coins)                        on the device: what an ask sums

A runner (the simulator, an agent, a deployment) differs only in how it answers an ask: see `bandanna.loop`.

**A state holds released or public numbers only; raw rows stay with the runner.** So everything in `policies` is
post-processing of answers, the privacy of a policy is that of its asks, and a state may be saved and published.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar, get_type_hints

import numpy as np

from bandanna.accounting.guarantee import Guarantee
from bandanna.core.arrays import Bools, Floats, Ints
from bandanna.core.coins import Coins, NumberedCoins
from bandanna.core.domain import Statistic
from bandanna.core.estimate import Estimate
from bandanna.core.regression import Regression
from bandanna.core.spelling import did_you_mean
from bandanna.device.choice import Choice
from bandanna.errors import InvalidArgument
from bandanna.kernels.optimism import Optimism
from bandanna.policies.asks import Ask, Assigned, Episode, Frozen, Played, Until
from bandanna.protocols.base import FLOAT_BITS
from bandanna.protocols.channel import Channel
from bandanna.protocols.trust import Privacy
from bandanna.storage.declared import by_name, kinds_of
from bandanna.theory.settings import Found, Setting

__all__ = [
    "Ask", "Assigned", "Episode", "Frozen", "Played", "Policy", "RunningSums", "Until", "at", "blended", "put"
]  # fmt: skip

State = TypeVar("State")

_DRAWS = 16  # in which an arm of probability 1/2 is missed once in 65,000 times


class Policy(ABC, Generic[State]):
    """A frozen configuration with pure functions of states. Arrays may have leading replicate axes.

    trusts        the trust models that it has
    keeps         names of groups of rows that later asks may be about
    asks_again    whether an episode may have more than one ask: a runner keeps its rows until the last
    every_round   whether every episode is one round, whose user acts on the snapshot: an agent may begin later rounds
                  before earlier ones are learned
    side_by_side  whether states may have replicate axes: many seeds of a simulation at once
    noise_stream  the random stream of a simulation's noise, where seeds are run one by one
    stream_noise  that of stream protocols' noise, the same unless given
    player        the simulator's exact acceleration for this very class; a subclass that says nothing is played plainly
    not_here      arguments that one may look for, and where they are instead
    """

    trusts: ClassVar[tuple[str, ...]] = ("none",)
    keeps: ClassVar[tuple[str, ...]] = ()
    asks_again: ClassVar[bool] = False
    every_round: ClassVar[bool] = False
    side_by_side: ClassVar[bool] = False
    noise_stream: ClassVar[str] = "noise"
    stream_noise: ClassVar[str | None] = None
    player: ClassVar[str] = "plain"
    not_here: ClassVar[tuple[tuple[str, str], ...]] = ()

    horizon: int | None
    privacy: Privacy

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Refuse arguments that a policy's dataclass does not have, with the nearest that it has."""
        if is_dataclass(cls):
            known = [each.name for each in fields(cls) if each.init]
            for name in named:
                if name not in known and name in dict(cls.not_here):
                    raise InvalidArgument(name, named[name], f"left out: {dict(cls.not_here)[name]}")
                if name not in known:
                    hint = did_you_mean(name, [each for each in known if each not in named])
                    takes = ", ".join(each for each in known if not each.startswith("_"))
                    allowed = f"{cls.__name__} has no such argument: {hint}it takes {takes}"
                    raise InvalidArgument(name, named[name], allowed)
            if named and "privacy" not in named and "privacy" in _required(cls):  # a copy is made without arguments
                raise InvalidArgument("privacy", None, f"{cls.__name__} needs privacy={_choice_of(cls.trusts)}")
        return super().__new__(cls)

    def __post_init__(self) -> None:
        self.check_trust()

    def check_trust(self) -> None:
        """Refuse a trust model that the policy does not have; warn of a delta above 1/horizon."""
        if not isinstance(self.privacy, Privacy) or self.privacy.model not in self.trusts:
            shown = self.privacy.model if isinstance(self.privacy, Privacy) else self.privacy
            allowed = ", ".join(f"bd.{each}({'...' * (each != 'none')})" for each in self.trusts)
            raise InvalidArgument("privacy", shown, f"{type(self).__name__} has {allowed}")
        if isinstance(horizon := getattr(self, "horizon", None), int | np.integer):
            self.privacy.warn_if_delta_exceeds(int(horizon))

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised, to whom, against whom; computed for the asks that are made."""

    @abstractmethod
    def init(self, arms: Floats | None = None, replicates: tuple[int, ...] = ()) -> State:
        """Nothing released yet; `arms`: features of a fixed set, (*R, K, d), for policies that plan with them."""

    @abstractmethod
    def episode(self, state: State) -> Episode | None:
        """The next episode; None when the horizon is reached."""

    def publish(self, state: State) -> Any:
        """All that a device needs; the state itself unless the policy says otherwise."""
        return state

    def seen(self, contexts: Floats) -> Floats:
        """Device: features as the policy takes them, clipped where it has bounds for them: what `act` is given."""
        return contexts

    def act(self, snapshot: Any, contexts: Floats, coins: Coins) -> Choice:
        """Device: an arm for every row of `seen` features, (*R, n, K, d); not called in assigned episodes."""
        raise TypeError(f"{type(self).__name__} says what is played: devices do not choose")

    def best(self, snapshot: Any, contexts: Floats) -> Ints:
        """The arms that look best, (n, K, d) -> (n,): no bonus for what is not known, no coin; for recommendations.

        Unless a policy says otherwise, the arm to which it gives the largest probability in a few fixed draws.
        """
        seen = self.seen(contexts)
        draws = [self.act(snapshot, seen, NumberedCoins(draw, 0)) for draw in range(_DRAWS)]
        likeliest = np.argmax([choice.probabilities for choice in draws], axis=0)  # (n,)
        actions: Ints = np.stack([choice.actions for choice in draws])
        return np.asarray(actions[likeliest, np.arange(actions.shape[1])])

    def theta(self, snapshot: Any) -> Floats | None:
        """The estimated parameter, where there is one."""
        return getattr(snapshot, "theta", None)

    def crossing(self, state: State, features: Floats) -> int | None:
        """After how many of these rounds, (n, d), an `Until` episode ends; None: later. Features are public then."""
        raise TypeError(f"{type(self).__name__} has no episodes that end early")

    def passed(self, state: State, features: Floats) -> State:
        """The state after these rounds, (n, d), of an `Until` episode, the crossing among them or none."""
        raise TypeError(f"{type(self).__name__} has no episodes that end early")

    @abstractmethod
    def report(self, ask: Ask, played: Played, coins: Coins) -> Statistic:
        """Device: rows as statistics of the ask's domain, clipped and counted."""

    @abstractmethod
    def learn(self, state: State, episode: Any) -> Generator[Ask, Estimate, State]:
        """Server: ask for sums, receive them, return the next state."""

    @property
    def bits_per_user(self) -> int:
        """What a user sends."""
        return FLOAT_BITS

    def following(self, episode: Any) -> Episode | None:
        """The episode after this one, where it does not depend on what will be learned: then it may begin before."""
        return None

    def counts(self, state: State) -> dict[str, Ints]:
        """What a result should tell of a run, (*R) each."""
        return {}

    @classmethod
    def bounds(cls, setting: Setting) -> Found:
        """Regret bounds of `bandanna.theory` for results with this setting, and their arguments; none unless known."""
        return iter(())

    @classmethod
    def kinds(cls) -> dict[str, type]:
        """The dataclasses that the policy, its states and its snapshots are made of, by their stored names.

        They are found by the types of fields, and by those that `init` and `publish` say they return.
        """
        returned = (get_type_hints(method).get("return") for method in (cls.init, cls.publish))
        return by_name(cls) | kinds_of(*get_type_hints(cls).values(), *returned)

    def prepare(self) -> None:
        """Compute now what is computed once, calibrations above all: before many copies are sent to other processes."""
        _ = self.guarantee

    def facts(self) -> dict[str, Any]:
        """What a result should remember of the policy beside its arguments: numbers that bounds are made of."""
        return {}


class RunningSums(Policy[State]):
    """A policy on reports (x y, x x^T) that asks for one sum in each episode of a public schedule.

    Its player has exact shortcuts: for arms that never change, and for noise that does not depend on the data.
    """

    dim: int

    @property
    @abstractmethod
    def domain(self) -> Regression:
        """Of the reports."""

    @abstractmethod
    def phases(self) -> Iterator[Any]:
        """The policies that run one after the other, each from nothing, with a `channel` and `estimate(total, m)`."""

    @abstractmethod
    def ask(self, episode: Frozen) -> Ask:
        """What is asked of an episode, whatever the state."""

    @property
    def span(self) -> int:
        """How many rounds are planned for, of a phase."""
        raise TypeError(f"{type(self).__name__} has phases")

    @property
    def spends(self) -> Privacy:
        """What batches are calibrated for."""
        return self.privacy

    @abstractmethod
    def calibrated(self) -> dict[int, Channel]:
        """The channels of the phases that have one by now."""

    @abstractmethod
    def recalibrate(self, phase: int, channel: Channel) -> None:
        """Make a phase that has no channel yet use this one; what it guarantees is computed from it anew."""

    @abstractmethod
    def statistic(self, features: Floats, rewards: Floats, arms: Ints | None = None) -> Statistic:
        """Reports of (*R, n, d), (*R, n) and (*R, n), clipped and counted."""

    @abstractmethod
    def centred(self, rewards: Floats) -> tuple[Floats, Bools]:
        """Rewards as they are reported, and which had to be clipped."""

    @property
    def steady(self) -> bool:
        """Whether devices that see the same arms choose the same: those of one episode, of a fixed set."""
        return True

    def optimism(self, first: int, count: int) -> Optimism | None:
        """What a kernel must know of `count` rounds of one user each, after `first`; None where it cannot help."""
        return None

    @abstractmethod
    def tabulate(self, features: Floats) -> Any:
        """A fixed set of arms, (*R, K, d), as `favoured` and `drawn_arms` take it."""

    def favoured(self, snapshot: Any, arms: Any) -> tuple[Ints, Bools | None]:
        """Of a `steady` policy: those arms between which coins choose, as `linalg.favoured`, (*R) and (*R, K)."""
        raise TypeError(f"devices of {type(self).__name__} draw their arms")

    def drawn_arms(self, snapshot: Any, arms: Any, users: int, coins: Coins) -> Ints:
        """Of one that is not: the arms that so many devices choose, (*R, users)."""
        raise TypeError(f"devices of {type(self).__name__} all choose the same")


def _required(kind: type[Any]) -> list[str]:
    """The arguments of a dataclass that have no default."""
    given = (each for each in fields(kind) if each.init)
    return [each.name for each in given if each.default is MISSING and each.default_factory is MISSING]


def _choice_of(trusts: tuple[str, ...]) -> str:
    """The trust models as calls: private ones first, then what gives no protection."""
    private = [f"bd.{each}(...)" for each in trusts if each != "none"]
    return " or ".join([", ".join(private)] * bool(private) + ["bd.none() for no protection"] * ("none" in trusts))


def at(state: State, place: Any) -> State:
    """What stands at a place of the first axis: of seeds side by side, the state of one or of some."""
    return type(state)(**{each.name: getattr(state, each.name)[place] for each in fields(state)})  # type: ignore[arg-type]


def put(state: State, place: Any, new: State) -> State:
    """The states of seeds side by side, with a new one at a place."""
    held = {each.name: getattr(state, each.name).copy() for each in fields(state)}  # type: ignore[arg-type]
    for name, array in held.items():
        array[place] = getattr(new, name)
    return type(state)(**held)


def blended(wanted: Bools, new: State, old: State) -> State:
    """States of seeds side by side: the new one of some seeds (S,), the old one of the others."""
    if wanted.all():
        return new
    if not wanted.any():
        return old
    chosen = {}
    for each in fields(new):  # type: ignore[arg-type]
        one, two = getattr(new, each.name), getattr(old, each.name)
        chosen[each.name] = np.where(wanted.reshape(-1, *(1,) * (np.ndim(one) - 1)), one, two)
    return type(new)(**chosen)
