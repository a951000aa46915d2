"""Numbers that a change of names and places must not change, as entries of groups: computed here, stored beside.

An entry holds numbers and short texts of results only, never bytes of a save or names of classes and modules.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

import bandanna as bd

from ..clients.js import cases
from ..clients.js.cases import Words
from ..ope.worlds import bold, clinic, model, trial
from . import library
from .library import guarantee_numbers, noise_numbers, seeded, worlds
from .settings import ALGORITHMS, DP, FIXED, LOW, PRIVACY, UNNAMED, Entry


@functools.cache
def made(name: str, privacy: str = "") -> Any:
    """The policy of that name, with its budget as numbers or with a privacy of `PRIVACY`."""
    trust, arguments, budget, _ = ALGORITHMS[name]
    return bd.make(name, **arguments, **({"privacy": PRIVACY[trust][privacy]()} if privacy else budget))


def arms_of(env: Any) -> Any:
    """Features of the world's arms, for policies that plan with them."""
    if isinstance(env, worlds.SphereArms | worlds.Population):
        angles = np.linspace(0.3, 4.0, env.n_arms)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return None


def simulated(policy: Any, env: Any, path: str) -> dict[str, Any]:
    horizon = None if policy.horizon is not None else 150
    result = bd.simulate(policy, env, n_seeds=2, seed=11, path=path, checkpoints=8, horizon=horizon)
    return {
        "regret": result.regret,
        "rewards": result.rewards,
        "releases": result.releases,
        "clipped": result.clipped,
        "repairs": result.repairs,
        "counts": sorted(counted.tolist() for counted in result.counts.values()),
        "plays": result.plays,
        "users": result.users,
        "bits per user": result.bits_per_user,
        "guarantee": guarantee_numbers(result.guarantee),
        "bounds": {curve.bound.name: curve.values[-1] for curve in result.bounds()},
    }


def noise_of_policy(policy: Any, env: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"guarantee": guarantee_numbers(policy.guarantee), "bits per user": policy._bits_per_user}
    protocol = library.first_protocol(policy, arms_of(env))
    if protocol is not None:
        found["noise"] = noise_numbers(protocol)
    return found


def decided(policy: Any, env: Any) -> dict[str, Any]:
    """What a seeded agent decides and spends; one reward in five is never told."""
    arms = arms_of(env)
    agent = bd.Agent(policy=policy, test=True, seed=5, arms=arms)
    rng, rounds = np.random.default_rng(3), min(policy.horizon or 150, 150)
    dim = getattr(policy, "dim", None) or getattr(env, "dim", 1)
    given = arms is None and not isinstance(env, worlds.FiniteArms)
    chosen, chances, clients = [], [], []
    for number in range(rounds):
        contexts = None
        if given:
            contexts = rng.normal(size=(env.n_arms, dim)) / 5
            if getattr(policy, "intercept", False):
                contexts[:, -1] = 0.5
        while agent.clients_wanted:
            clients.append(agent.recruit())
        decision = agent.act(contexts)
        chosen.append(int(decision.arm))
        chances.append(float(decision.probability or 0.0))
        reward = float(rng.random() < (0.3 + 0.5 * (decision.arm == 1)))
        if clients:
            for client in clients[-3:]:
                agent.observe(decision.id, reward, client=client)
        elif number % 5:
            agent.observe(decision.id, reward)
    agent.close()
    theta, ledger = agent.theta, agent.ledger
    return {
        "arms": chosen,
        "probabilities": chances[::25],
        "releases": agent.releases,
        "spent": None if ledger is None else ledger.spent(),
        "theta": theta,
        "missing": agent.missing,
        "clipped": agent.clipped,
        "guarantee": guarantee_numbers(agent.guarantee),
    }


def allowed(compute: Entry) -> Any:
    """What is computed, or that the library refuses it."""
    try:
        return compute()
    except bd.BandannaError:
        return "refused"


def simulations() -> dict[str, Entry]:
    """Every algorithm under every privacy that its privacy model has, by both paths."""
    found: dict[str, Entry] = {}
    for name, (trust, _, _, envs) in ALGORITHMS.items():
        runs = [("default", "", env) for env in envs]
        runs += [(key, key, envs[0]) for key in PRIVACY[trust] if trust != "none"]
        for title, key, env in runs:
            world = f"{title}, fixed arms" if env is FIXED else f"{title}, {type(env).__name__}"
            world = world if env is not envs[0] else title
            for path in ("law", "messages"):
                found[f"{name} | {world} | {path}"] = lambda name=name, key=key, env=env, path=path: simulated(
                    made(name, key), env, path
                )
            if env is envs[0]:
                found[f"{name} | {title} | noise"] = lambda name=name, key=key, env=env: noise_of_policy(
                    made(name, key), env
                )
    for name, (policy, env) in UNNAMED.items():
        for path in ("law", "messages"):
            found[f"{name} | {path}"] = lambda policy=policy, env=env, path=path: simulated(policy(), env, path)
    return found


def decisions() -> dict[str, Entry]:
    found: dict[str, Entry] = {
        name: lambda name=name, env=envs[0]: decided(made(name), env) for name, (_, _, _, envs) in ALGORITHMS.items()
    }
    return found | {
        name: lambda policy=policy, env=env: decided(policy(), env)
        for name, (policy, env) in UNNAMED.items()
        if name != "LinTS per arm"  # its contexts are those of users
    }


USERS = 8
DOMAINS: dict[str, Any] = {
    "report": bd.device.LinearReport(features=2),
    "ball": bd.device.Ball(dim=3),
    "box": bd.device.Box(dim=2, low=3.0, high=5.0),
    "bits": bd.device.Bits(),
    "matrix": bd.device.SymmetricMatrix(size=2),
}


def statistics(domain: Any, users: int = USERS) -> Any:
    rng = np.random.default_rng(5)
    if isinstance(domain, bd.device.Bits):
        return rng.integers(0, 2, size=(users, 1)).astype(float)
    drawn: Any = domain.admit(rng.uniform(domain.lower, domain.upper, (users, domain.dim)))
    return drawn.values


@contextmanager
def known_entropy() -> Iterator[Any]:
    """A secure source whose bytes of the operating system are those of a hash: what people's devices draw, in full."""
    numbers = itertools.count()
    with mock.patch("os.urandom", lambda size: hashlib.shake_256(f"golden {next(numbers)}".encode()).digest(size)):
        yield bd.device.SecureNoise()


def released(protocol: Any) -> dict[str, Any]:
    """Noise, promise, messages of a seeded device and estimates by both paths."""
    rows = statistics(protocol.domain)
    messages = protocol.device.message(protocol.admit(rows), seeded())
    found: dict[str, Any] = {
        "noise": noise_numbers(protocol),
        "guarantee": guarantee_numbers(protocol.guarantee),
        "messages": messages[:3],
        "nothing": protocol.device.zero(seeded(2)),
        "by messages": summed(protocol, rows, seeded(), "messages"),
        "by law": summed(protocol, rows, seeded(), "law"),
    }
    with known_entropy() as source:
        found["secure messages"] = protocol.device.message(protocol.admit(rows), source)[:3]
        found["secure nothing"] = protocol.device.zero(source)
        found["secure sums"] = summed(protocol, rows, source, "messages")
    return found


def summed(protocol: Any, rows: Any, source: Any, path: str) -> list[Any]:
    """The estimate of a batch; of a stream, those after each of four parts."""
    if not library.is_stream(protocol):
        estimate = protocol.release(rows, source, path=path)
        return [estimate.total, estimate.count, estimate.variance]
    state, totals = protocol.begin(), []
    for part in np.split(rows, 4):
        state, estimate = protocol.release(state, part, source, path=path)
        totals.append([estimate.total, estimate.count, estimate.variance])
    return totals


STREAMS: dict[str, Entry] = {
    **{
        f"running sums, {mechanism}, {title}": lambda mechanism=mechanism, budget=budget: (
            bd.protocols.CentralContinual.calibrate(
                domain=DOMAINS["report"], budget=budget(), horizon=4, mechanism=mechanism
            )
        )
        for mechanism in ("blt", "tree")
        for title, budget in (("DP", lambda: bd.privacy.ApproxDP(**DP)), ("zCDP", lambda: bd.privacy.ZCDP(rho=2.0)))
    },
    **{
        f"concurrent, {shufflers} of {domain}, {coins}": lambda shufflers=shufflers, domain=domain, coins=coins: (
            bd.protocols.ConcurrentShuffle.calibrate(
                domain=DOMAINS[domain],
                budget=bd.privacy.ApproxDP(**DP),
                horizon=8,
                shufflers=shufflers,
                coins=coins,
                lowest=2,
            )
        )
        for shufflers in (1, 2)
        for domain in ("report", "bits")
        for coins in ("device", "mixer")
    },
}
EDGES: dict[str, Entry] = {
    "central laplace of two participations": lambda: bd.protocols.CentralLaplace.calibrate(
        domain=DOMAINS["box"], budget=bd.privacy.PureDP(epsilon=2.0), participations=2, users=USERS
    ),
    "local unit of two participations": lambda: bd.protocols.LocalUnit.calibrate(
        domain=DOMAINS["ball"], budget=bd.privacy.ApproxDP(**DP), participations=2
    ),
    "shuffled bits, checked": lambda: bd.protocols.ShuffleBits.calibrate(
        budget=bd.privacy.ApproxDP(**DP), batch=USERS, coins="checked"
    ),
    "shuffled gaussian reports": lambda: bd.protocols.ShuffleGaussian(
        domain=DOMAINS["ball"], noise_std=3.0, batch=USERS
    ),
    "shuffled counts, printed": lambda: bd.protocols.ShuffleBinomial.calibrate(
        domain=DOMAINS["report"], budget=bd.privacy.ApproxDP(**LOW), batch=USERS, calibration="paper"
    ),
}


def opened(model: str, key: str, domain: str) -> Any:
    return bd.protocols.protocol_for(PRIVACY[model][key](), DOMAINS[domain], USERS)


def messages() -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for trust, variants in PRIVACY.items():
        for key in variants if trust != "concurrent" else ():
            for domain in DOMAINS:
                found[f"{trust} {key} | {domain}"] = lambda trust=trust, key=key, domain=domain: released(
                    opened(trust, key, domain)
                )
    for name, protocol in (STREAMS | EDGES).items():
        found[name] = lambda protocol=protocol: released(protocol())
    return found


def counters() -> dict[str, Entry]:

    def counted(model: str, key: str, domain: str) -> dict[str, Any]:
        def counter() -> Any:
            return bd.agent.ContinualSum(
                horizon=12, privacy=PRIVACY[model][key](), values=DOMAINS[domain], source=seeded(7)
            )

        rows = statistics(DOMAINS[domain], 12)
        if domain == "bits":
            rows = rows[:, 0].astype(int)
        one = counter()
        return {
            "law": counter().run(rows, path="law"),
            "messages": counter().run(rows, path="messages"),
            "updates": [one.update(row) for row in rows[:6]],
            "predicted std": one.predicted_std,
            "guarantee": guarantee_numbers(one.guarantee),
        }

    return {
        f"{model} {key} | {domain}": functools.partial(counted, model, key, domain)
        for model, variants in PRIVACY.items()
        for key in variants
        for domain in ("box", "bits")
    }


BUDGETS: dict[str, Entry] = {
    "DP": lambda: bd.privacy.ApproxDP(epsilon=1.0, delta=1e-5),
    "small DP": lambda: bd.privacy.ApproxDP(epsilon=0.1, delta=1e-8),
    "zCDP": lambda: bd.privacy.ZCDP(rho=0.5),
    "Renyi": lambda: bd.privacy.RenyiDP(alpha=8.0, epsilon=1.0),
    "pure": lambda: bd.privacy.PureDP(epsilon=1.0),
}


CALIBRATED: dict[str, Callable[..., Any]] = {
    "central gaussian": functools.partial(bd.protocols.CentralGaussian.calibrate, domain=DOMAINS["report"]),
    "central gaussian, printed": functools.partial(
        bd.protocols.CentralGaussian.calibrate, domain=DOMAINS["report"], calibration="paper"
    ),
    "central laplace": functools.partial(bd.protocols.CentralLaplace.calibrate, domain=DOMAINS["box"], users=100),
    "central continual": functools.partial(
        bd.protocols.CentralContinual.calibrate, domain=DOMAINS["report"], horizon=30
    ),
    "local gaussian": functools.partial(bd.protocols.LocalGaussian.calibrate, domain=DOMAINS["report"]),
    "local gaussian, printed": functools.partial(
        bd.protocols.LocalGaussian.calibrate, domain=DOMAINS["report"], calibration="paper"
    ),
    "local bits": bd.protocols.LocalBits.calibrate,
    "local unit": functools.partial(bd.protocols.LocalUnit.calibrate, domain=DOMAINS["ball"]),
    "shuffled gaussian": functools.partial(bd.protocols.ShuffleGaussian.calibrate, domain=DOMAINS["report"], batch=500),
    "shuffled counts": functools.partial(bd.protocols.ShuffleBinomial.calibrate, domain=DOMAINS["report"], batch=60),
    "shuffled counts, checked": functools.partial(
        bd.protocols.ShuffleBinomial.calibrate, domain=DOMAINS["report"], batch=60, coins="checked"
    ),
    "shuffled bits": functools.partial(bd.protocols.ShuffleBits.calibrate, batch=60),
    "concurrent": lambda *, budget, participations: bd.protocols.ConcurrentShuffle.calibrate(
        domain=DOMAINS["report"], budget=budget, horizon=200 * participations
    ),
}


def rows_of(rows: Any) -> list[Any]:
    return [
        [row.std, row.bits_per_user, row.ratio_to_central]
        + ([] if row.guarantee is None else [row.guarantee.epsilon, row.guarantee.delta, row.guarantee.rho])
        for row in rows
    ]


def calibrations() -> dict[str, Entry]:
    """The noise of all protocols side by side, what a noise guarantees, and factorisations."""
    found: dict[str, Entry] = {}

    def compared(budget: Entry, calibration: str, times: int) -> list[Any]:
        return rows_of(
            library.compare_protocols(
                domain=bd.device.LinearReport(features=3),
                budget=budget(),
                batch=200,
                participations=times,
                horizon=64,
                calibration=calibration,
            )
        )

    def calibrated(protocol: Callable[..., Any], budget: Entry, times: int) -> dict[str, Any]:
        made = protocol(budget=budget(), participations=times)
        return {"noise": noise_numbers(made), "guarantee": guarantee_numbers(made.guarantee)}

    for title, times in itertools.product(BUDGETS, (1, 3)):
        for calibration in ("tight", "paper"):
            found[f"all protocols | {title} | {calibration} | {times}"] = functools.partial(
                compared, BUDGETS[title], calibration, times
            )
        for name, protocol in CALIBRATED.items():
            found[f"{name} | {title} | {times}"] = functools.partial(calibrated, protocol, BUDGETS[title], times)
    for std in (5.0, 50.0):
        found[f"noise of {std}"] = lambda std=std: rows_of(
            library.invert_protocols(domain=bd.device.Ball(dim=4), std=std, delta=1e-6, batch=300, horizon=64)
        )

    def factors(name: str, horizon: int) -> list[float]:
        made = library.factorise(name, horizon=horizon)
        return [made.error(), made.sensitivity(), made.sensitivity(2)]

    for name in ("blt", "tree"):
        for horizon in (5, 64, 1000):
            found[f"{name} | {horizon}"] = functools.partial(factors, name, horizon)
    return found


EVENTS: dict[str, Entry] = {
    "gaussian": lambda: bd.protocols.CentralGaussian(domain=bd.device.Ball(dim=3), noise_std=3.0),
    "laplace": lambda: bd.protocols.CentralLaplace.calibrate(
        domain=bd.device.Box(dim=2), budget=bd.privacy.PureDP(epsilon=0.7)
    ),
    "local gaussian": lambda: bd.protocols.LocalGaussian(domain=bd.device.Ball(dim=3), noise_std=3.0),
    "local bits": lambda: bd.protocols.LocalBits(epsilon=0.5),
    "local unit": lambda: bd.protocols.LocalUnit(domain=bd.device.Ball(dim=3), cosine=0.25, chance=0.8, candidates=3),
    "shuffled gaussian": lambda: bd.protocols.ShuffleGaussian(domain=bd.device.Ball(dim=3), noise_std=8.0, batch=100),
    "counts": lambda: opened("shuffle", "DP", "report"),
    "bits": lambda: opened("shuffle", "DP", "bits"),
    "continual": STREAMS["running sums, blt, DP"],
    "concurrent": STREAMS["concurrent, 2 of report, device"],
}


def accounts() -> dict[str, Entry]:
    """What one release, three, and releases of two kinds cost."""

    def priced(names: tuple[str, ...], times: int) -> dict[str, Any]:
        account = bd.privacy.Accountant()
        for name in names:
            account = account.compose(EVENTS[name]().event, times)
        return {
            "epsilon": [account.epsilon(delta) for delta in (1e-3, 1e-6)],
            "delta": [account.delta(epsilon) for epsilon in (0.5, 3.0)],
            "rho": account.rho(),
        }

    found: dict[str, Entry] = {
        f"{name} | {times}": functools.partial(priced, (name,), times) for name in EVENTS for times in (1, 3)
    }
    for pair in (("gaussian", "counts"), ("gaussian", "laplace"), ("local bits", "local unit")):
        found[" and ".join(pair)] = functools.partial(priced, pair, 2)
    return found


PARAMETERS: dict[str, Any] = {
    "horizon": np.array([200.0, 1e4, 1e6]),
    "dim": 3,
    "n_arms": 10,
    "rho": 0.5,
    "epsilon": 0.9,
    "delta": 1e-6,
    "client_std": 0.2,
    "gaps": np.array([0.2, 0.3, 0.5]),
    "optimism": 3.1,
    "batch": 25.0,
    "batches": 20.0,
    "smallest": 2.0,
    "largest": 9.0,
    "shift": 1.0,
    "failure": 0.05,
    "radius": 2.5,
    "ellipsoid": 2.5,
    "sampling": 0.8,
    "ridge": 1.0,
    "least_eigenvalue": 0.1,
    "shufflers": 2,
    "participations": 3,
    "calibration": "tight",
    "sigma": 0.1,
    "noise": 0.5,
    "width": 1.0,
}


def bounds() -> dict[str, Entry]:

    def valued(bound: Any) -> Any:
        wanted = inspect.signature(bound.formula).parameters.values()
        needed = [each.name for each in wanted if each.default is inspect.Parameter.empty]
        return bound(**{name: PARAMETERS[name] for name in needed})

    return {name: functools.partial(valued, bound) for name, bound in library.BOUNDS.items()}


def values() -> dict[str, Entry]:
    """Off-policy estimates with intervals, private and not, and replays."""
    log = functools.cache(lambda: clinic(400, 3))
    estimates: dict[str, Callable[..., Any]] = {
        "ips": lambda **given: bd.ope.ips(log(), bold, **given),
        "ips, cut": lambda **given: bd.ope.ips(log(), bold, weight_bound=3.0, **given),
        "snips": lambda **given: bd.ope.snips(log(), bold, **given),
        "dr": lambda **given: bd.ope.dr(log(), bold, q=model, **given),
        "switch": lambda **given: bd.ope.switch(log(), bold, q=model, weight_bound=5.0, **given),
        "dm": lambda **given: bd.ope.dm(log(), bold, q=model, **given),
        "ips of a trial": lambda **given: bd.ope.ips(trial(300, 2), "arm:1", **given),
        "compare": lambda **given: bd.ope.compare(log(), {"bold": bold, "uniform": "uniform"}, **given),
    }

    def numbers(value: Any) -> Any:
        several = getattr(value, "values", None)
        if several is not None:
            return [numbers(each) for each in (several.values() if isinstance(several, dict) else several)]
        return {
            "estimate": value.estimate,
            "stderr": value.stderr,
            "noise": value.noise_std,
            "intervals": [value.interval(), value.interval(0.8)],
            "clipped mass": value.clipped_mass,
            "effective sample size": value.effective_sample_size,
            "guarantee": guarantee_numbers(value.guarantee),
        }

    found: dict[str, Entry] = {}
    for name, estimate in estimates.items():
        found[f"{name} | clear"] = lambda estimate=estimate: numbers(estimate())
        for model_, variants in PRIVACY.items():
            for key in variants if model_ in ("central", "local", "shuffle") else ():
                for path in ("law", "messages"):
                    found[f"{name} | {model_} {key} | {path}"] = functools.partial(
                        lambda estimate, model_, key, path: numbers(
                            estimate(privacy=PRIVACY[model_][key](), seed=4, path=path)
                        ),
                        estimate,
                        model_,
                        key,
                        path,
                    )

    def replayed(name: str, method: str, **budget: Any) -> dict[str, Any]:
        policy = bd.make(name, dim=2, horizon=200, **budget)
        found = bd.replay(policy, _of_arms(), n_seeds=2, seed=3, method=method)
        return {"rewards": found.rewards, "weight": found.weight, "releases": found.releases, "clipped": found.clipped}

    for method in ("rejection", "weighted"):
        found[f"replay LinTS-JDP | {method}"] = functools.partial(replayed, "LinTS-JDP", method, **DP)
        found[f"replay LinUCB | {method}"] = functools.partial(replayed, "LinUCB", method)
    return found


def _of_arms() -> Any:
    """A log of three arms with features of their own."""
    rng = np.random.default_rng(8)
    contexts, arms = rng.normal(size=(400, 3, 2)) / 3, rng.integers(0, 3, 400)
    rewards = (rng.random(400) < 0.5 + 0.4 * contexts[np.arange(400), arms, 0]).astype(float)
    share = np.full(400, 1 / 3)
    return bd.Log(contexts=contexts, arms=arms, rewards=rewards, propensities=share, names=(0, 1, 2), floor=1 / 3)


def clients() -> dict[str, Entry]:
    """What Python computes from recorded entropy, and the browser client too (`tests/clients/js`)."""

    def acting(place: int) -> list[Any]:
        words, rng = Words(1), np.random.default_rng(1)
        kinds = ("plain", "ties", "explore", "any arm")
        made = [cases.acting(cases.CHOOSERS[place], words, rng, kind, n) for kind in kinds for n in range(12)]
        return [[case.expected["action"], case.expected["features"]] for case in made]

    def protecting(domain: Any, place: int) -> list[Any]:
        words, rng = Words(2), np.random.default_rng(2)
        device = list(cases.devices_of(domain))[place]
        return [_integers(cases.protecting(device, words, rng, n).expected["message"]) for n in range(6)]

    def telling(place: int) -> list[Any]:
        words, rng = Words(3), np.random.default_rng(3)
        told = list(cases.tells())[place]
        made = [cases.telling(*told, words, rng, n).expected for n in range(6)]
        return [[each["values"], _integers(each["message"])] for each in made]

    found: dict[str, Entry] = {
        f"choice {place}": functools.partial(acting, place) for place in range(len(cases.CHOOSERS))
    }
    for number, domain in enumerate(cases.DOMAINS):
        for place in range(len(list(cases.devices_of(domain)))):
            found[f"message {number} {place}"] = functools.partial(protecting, domain, place)
    return found | {f"report {place}": functools.partial(telling, place) for place in range(len(list(cases.tells())))}


def _integers(message: list[str]) -> list[Any]:
    return [int(each) if each.lstrip("-").isdigit() else float(each) for each in message]


def designs() -> dict[str, Entry]:
    rng = np.random.default_rng(6)
    points = rng.normal(size=(30, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    features, rewards = points * 0.9, (rng.random(30) < 0.6).astype(float)

    def design(find: Callable[..., Any]) -> list[Any]:
        found = find(points)
        return [found.support, found.weights, found.g, found.rank]

    found: dict[str, Entry] = {
        "optimal": lambda: design(bd.policies.design.optimal_design),
        "near optimal": lambda: design(bd.policies.design.near_optimal_design),
        "net": lambda: bd.policies.design.epsilon_net(points, radius=0.5),
        "net of a ball": lambda: bd.policies.design.ball_net(2, radius=0.6),
    }
    theta = np.array([0.2, -0.1, 0.3])
    for name, link in bd.policies.glm.links.LINKS.items():
        found[f"loss | {name}"] = lambda link=link: [
            bd.policies.glm.estimation.loss(link, theta, features, rewards, ridge=0.1),
            bd.policies.glm.estimation.loss_gradient(link, theta, features, rewards, ridge=0.1),
            bd.policies.glm.estimation.loss_hessian(link, theta, features, ridge=0.1),
        ]
    return found


GROUPS: dict[str, Callable[[], dict[str, Entry]]] = {
    "simulations": simulations,
    "decisions": decisions,
    "messages": messages,
    "counters": counters,
    "calibrations": calibrations,
    "accounts": accounts,
    "bounds": bounds,
    "values": values,
    "clients": clients,
    "designs": designs,
}


def computed(entry: Entry) -> Any:
    """An entry as JSON has it; warnings about little noise belong to the corpus."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return plain(allowed(entry))


def plain(value: Any) -> Any:
    """Numbers, texts, lists and dictionaries; what JSON has no number for is text."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not np.isfinite(value):
        return repr(value)
    assert value is None or isinstance(value, bool | int | float | str), type(value)
    return value
