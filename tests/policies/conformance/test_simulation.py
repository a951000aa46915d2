"""Simulated runs of every policy: players, paths, seeds, states and limits."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

import bandanna as bd
from bandanna.policies.base import Policy
from bandanna.protocols.privacy_model import Privacy
from bandanna.simulation import engine
from bandanna.simulation.players import reference
from bandanna.storage.encoding import Encoding

from .catalogue import BY_MESSAGES, CASES, OF_EVERY_CLASS, Case, every_case, every_path
from .driving import SEEDS, Seen, Way, again, arrays, bits, drive, one_law, simulated, usual

ACCELERATED = {key: case for key, case in CASES.items() if vars(type(case.policy)).get("player", "plain") != "plain"}
COUNTERFACTUAL = ("every round", "blocks")  # these players draw what every arm would earn
VECTOR_SUMS = {
    "LinTS-LDP",
    "LinTS-SDP",
    "LinTS-CSDP",
    "LinTS per arm",
    "LinUCB-SDP-Vec",
    "LinUCB-CSDP",
    "Anytime",
}
OTHER_NUMBERS = {
    "law": VECTOR_SUMS | {"LDP-UCB", "UCB-episodes", "AdaC-UCB", "AdaP-UCB", "PE"},
    "messages": VECTOR_SUMS | {"LDP-UCB", "AdaP-UCB"},
}
# laws of messages are compared in `test_paths.py` too; one is here
DECIDED_BY_MESSAGES = (BY_MESSAGES - OTHER_NUMBERS["messages"]) | {"LinTS-LDP"}


@cache
def unnamed(kind: type) -> type:
    """A subclass, once: values are stored by the names of their classes, which must not be those of two."""
    return type(kind.__name__, (kind,), {"__module__": __name__})


def plainly(policy: Policy[Any]) -> Policy[Any]:
    """The same policy, of a class that names no player."""
    kind = type(policy)
    twin = unnamed(kind)
    made = twin(**{each.name: getattr(policy, each.name) for each in fields(kind) if each.init})  # type: ignore[arg-type]
    assert "player" not in vars(twin)
    return made  # type: ignore[no-any-return]


def regrets(key: str, path: str, *, seeds: int) -> tuple[Any, Any]:
    """Of the policy's own player, and of the plain one, (S, C) each."""
    case, policy = CASES[key], CASES[key].policy
    own = simulated(key, path, seeds=seeds)
    drawn = partial(reference.play_reference, counterfactual=type(policy).execution.player in COUNTERFACTUAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(engine.PLAYERS, "plain", drawn)
        given: dict[str, Any] = {"n_seeds": seeds, "seed": 4, "path": path, "checkpoints": 30}
        simple = bd.simulate(plainly(policy), case.env, horizon=case.rounds, **given)
    return own.regret, simple.regret


@pytest.mark.often(when=lambda key, path: key in (OF_EVERY_CLASS if path == "law" else DECIDED_BY_MESSAGES))
@every_path
@pytest.mark.parametrize("key", ACCELERATED)
def test_players_are_exact_accelerations(key: str, path: str) -> None:
    """False alarms: 1e-5 where only laws are compared."""
    if key in OTHER_NUMBERS[path]:
        own, simple = regrets(key, path, seeds=SEEDS)
        assert one_law(own[:, -1], simple[:, -1])
        assert not np.allclose(own, simple, rtol=0, atol=1e-9)
    else:
        own, simple = regrets(key, path, seeds=2)
        np.testing.assert_allclose(own, simple, rtol=0, atol=1e-9)


RELEASES = 100
DRAWN_OTHERWISE = {"UCB-episodes", "GOPE"}  # although there is no privacy; PE is among those by messages
PRIVATE = [key for key, case in CASES.items() if case.policy.privacy.noisy]


@pytest.mark.often(when=lambda case: case.key in BY_MESSAGES | DRAWN_OTHERWISE)
@every_case
def test_aggregates_have_the_law_of_messages(case: Case) -> None:
    law, messages = (simulated(case.key, path, seeds=SEEDS) for path in ("law", "messages"))
    assert one_law(law.regret[:, -1], messages.regret[:, -1])
    assert law.bits_per_user == messages.bits_per_user
    assert law.guarantee == messages.guarantee


@cache
def begun(key: str) -> Seen:
    return drive(CASES[key].policy, CASES[key], Way(enough=1))


@cache
def noise(key: str, path: str) -> Any:
    """Of releases of a first episode less their exact sums: (releases, dim)."""
    first = [again(CASES[key].policy, begun(key), seed, path) for seed in range(RELEASES)]
    return np.array([asked.estimate.total - asked.exact for asked in first])


def differ(one: Any, two: Any) -> bool:
    """Whether noise has another mean or spread, by 4.9 standard errors of means over releases (1e-6 each).

    Releases are independent; the coordinates of one need not be, nor are they normal (random directions).
    """

    def apart(first: Any, second: Any) -> float:
        error = math.sqrt((np.var(first) + np.var(second)) / RELEASES)
        return abs(float(np.mean(first) - np.mean(second))) / error

    means, squares = ([part.mean(axis=1) for part in pair] for pair in ((one, two), (one**2, two**2)))
    return max(apart(*means), apart(*squares)) > 4.9


@pytest.mark.often(when=lambda key: key in BY_MESSAGES | {"LinTS-SDP", "LinTS per arm", "SDP-DPE", "DP-SE"})
@pytest.mark.parametrize("key", PRIVATE)
def test_the_noise_of_a_release_has_one_law(key: str) -> None:
    assert not differ(noise(key, "law"), noise(key, "messages"))


def test_a_fifth_less_noise_is_noticed() -> None:
    assert differ(0.8 * noise("LinUCB-SDP-Vec", "law"), noise("LinUCB-SDP-Vec", "messages"))
    case = CASES["CDP-DPE"]
    less = replace(case.policy, privacy=bd.central(epsilon=500.0, delta=1e-3))
    law = bd.simulate(less, case.env, n_seeds=SEEDS, seed=4, path="law", checkpoints=2)
    messages = simulated(case.key, "messages", seeds=SEEDS)
    assert not one_law(law.regret[:, -1], messages.regret[:, -1])


@pytest.mark.often(when=lambda case, path: case.key in (OF_EVERY_CLASS if path == "law" else BY_MESSAGES))
@every_path
@every_case
def test_a_seed_gives_the_same_run_beside_any_other_seeds(case: Case, path: str) -> None:
    together, options = simulated(case.key, path, seeds=2), {"path": path, "horizon": case.rounds, "checkpoints": 30}
    for place in range(2):
        single = bd.simulate(case.policy, case.env, n_seeds=1, seed=4 + place, **options)
        np.testing.assert_array_equal(together.regret[place], single.regret[0])
        np.testing.assert_allclose(together.rewards[place], single.rewards[0], rtol=0, atol=1e-9)
        assert {name: int(each[place]) for name, each in together.counts.items()} == {
            name: int(each[0]) for name, each in single.counts.items()
        }


@pytest.mark.often(when=lambda case: case.key in OF_EVERY_CLASS)
@every_case
def test_learning_goes_on_from_a_stored_state(case: Case) -> None:
    policy = case.policy
    encoding = Encoding(policy._stored_classes())

    def stored(state: Any) -> Any:
        again = encoding.loads(encoding.dumps(state))
        assert type(again) is type(state)
        assert bits(again) == bits(state)
        assert bits(policy.publish(again)) == bits(policy.publish(state))
        return again

    at_once, through_files = usual(case.key), drive(policy, case, Way(stored=stored))
    assert [bits(state) for state in at_once.states] == [bits(state) for state in through_files.states]
    np.testing.assert_array_equal(at_once.regret, through_files.regret)
    assert len(at_once.states) > 0


@pytest.mark.often(when=lambda case: case.key in OF_EVERY_CLASS)
@every_case
def test_states_are_never_changed_in_place(case: Case) -> None:
    before = usual(case.key).noted
    assert all(bits(state) == then for state, then in before)
    state = before[0][0]
    assert is_dataclass(state)
    assert state.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert fields(state)


PRIVATE_LIMITS = [key for key, case in CASES.items() if case.policy.privacy.noisy and key != "Anytime"]
WITH_NONE = [
    key for key in PRIVATE_LIMITS if "none" in CASES[key].policy.trusts and key != "SDP-SE"
]  # its bits are finite


def spending(privacy: Privacy, size: float) -> Privacy:
    """The same trust with rho or epsilon of this size."""
    assert privacy.budget is not None
    name = "rho" if isinstance(privacy.budget, bd.privacy.ZCDP) else "epsilon"
    return replace(privacy, budget=replace(privacy.budget, **{name: size}))  # type: ignore[arg-type]


def with_privacy(policy: Policy[Any], privacy: Privacy) -> Policy[Any]:
    own = {each.name: getattr(policy, each.name) for each in fields(policy) if each.init}  # type: ignore[arg-type]
    if isinstance(policy, bd.LinUCB):
        own["batch"] = policy._schedule
    return type(policy)(**own | {"privacy": privacy})


@pytest.mark.often(when=lambda key, path: key in (OF_EVERY_CLASS if path == "law" else BY_MESSAGES))
@every_path
@pytest.mark.parametrize("key", WITH_NONE)
def test_an_infinite_epsilon_is_no_privacy(key: str, path: str) -> None:
    case = CASES[key]
    infinite = with_privacy(case.policy, spending(case.policy.privacy, math.inf))
    clear = with_privacy(case.policy, bd.none())
    assert infinite.guarantee.epsilon == math.inf
    one, two = (bd.simulate(each, case.env, n_seeds=2, path=path) for each in (infinite, clear))
    np.testing.assert_allclose(one.regret, two.regret, rtol=0, atol=1e-9)


def test_a_finite_epsilon_is_not_the_limit_without_noise() -> None:
    case = CASES["LinUCB-LDP"]
    one, two = (bd.simulate(with_privacy(case.policy, each), case.env) for each in (case.policy.privacy, bd.none()))
    assert not np.allclose(one.regret, two.regret)


@pytest.mark.parametrize("key", ["AdaC-OFUL-JDP", "GLM-JDP"])
def test_noise_for_a_huge_rho_changes_no_action(key: str) -> None:
    case = CASES[key]
    policy = with_privacy(case.policy, replace(case.policy.privacy, budget=bd.privacy.ZCDP(rho=1e12)))
    noisy, exact = drive(policy, case), drive(policy, case, Way(exact=True))
    np.testing.assert_allclose(noisy.regret, exact.regret, rtol=0, atol=1e-9)
    assert len(noisy.queries) == len(exact.queries) > 0


@pytest.mark.parametrize("key", ["SDP-SE", "GLM-SDP"])
def test_shuffled_noise_for_a_large_epsilon_hardly_changes_the_state(key: str) -> None:
    case = CASES[key]
    policy = with_privacy(case.policy, spending(case.policy.privacy, 600.0))
    noisy, exact = drive(policy, case).states[0], drive(policy, case, Way(exact=True)).states[0]
    for one, two in zip(arrays(noisy), arrays(exact), strict=True):
        np.testing.assert_allclose(one, two, rtol=0.1, atol=0.1)


def test_bits_without_lies_make_ldp_ucb_act_as_ucb1() -> None:
    case = CASES["LDP-UCB"]
    truthful = with_privacy(case.policy, spending(case.policy.privacy, 40.0))
    clear = bd.policies.UCB1(n_arms=3, horizon=case.rounds)
    one, two = (bd.simulate(each, case.env, n_seeds=3) for each in (truthful, clear))
    np.testing.assert_allclose(one.regret, two.regret, rtol=0, atol=1e-9)
