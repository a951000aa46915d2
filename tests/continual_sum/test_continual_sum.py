"""Counters in every privacy model: the stated noise, the same law one by one and at once, refusals that change nothing.

Fixed seeds; over seeds each comparison would raise a false alarm with probability below 1e-6.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import bandanna as bd
from bandanna.agent import continual_sum
from bandanna.device.domain import Estimate
from bandanna.errors import InsecureSource, InvalidArgument, InvalidStatistic
from bandanna.protocols.concurrent_shuffle import ConcurrentShuffle

from ..trouble import Interrupt, in_a_fork

Floats = NDArray[np.float64]

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
MODELS = {
    "none": bd.none(),
    "central, blt": bd.central(**BUDGET),
    "central, tree": bd.central(**BUDGET, mechanism="tree"),
    "central, zcdp": bd.central(rho=0.1),
    "local": bd.local(**BUDGET),
    "shuffle": bd.shuffle(**BUDGET),
    "2 shufflers": bd.concurrent(**BUDGET, shufflers=2),
    "best shufflers": bd.concurrent(**BUDGET),
    "paper": bd.concurrent(**BUDGET, shufflers=2, degrees="paper", calibration="paper"),
}
OTHER_NUMBERS = ("central, zcdp", "best shufflers", "paper")  # the code of others, with noise of another size
DOMAINS = {
    "bits": bd.device.Bits(),
    "numbers": bd.device.Box(dim=1),
    "vectors": bd.device.Ball(dim=2, bound=0.5),
    "matrices": bd.device.SymmetricMatrix(size=2),
}
each_model = pytest.mark.parametrize("privacy", MODELS.values(), ids=MODELS.keys())
each_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS.keys())
USERS, DRAWS = 40, 4000
BAND = math.sqrt(-math.log(1e-6 / 2) / 2)


@pytest.fixture(autouse=True, scope="module")
def _calibrated_once() -> Iterator[None]:
    """A protocol is a value: a hundred counters of one kind share theirs."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(continual_sum, "calibrate_counter", cache(continual_sum.calibrate_counter))
        yield


def counter(
    privacy: bd.protocols.Privacy, domain: bd.device.Domain, seed: int = 1, horizon: int = USERS
) -> bd.agent.ContinualSum:
    source = bd.device.FastNoise(np.random.default_rng(seed))
    return bd.agent.ContinualSum(horizon=horizon, privacy=privacy, values=domain, source=source)


def stream(domain: bd.device.Domain, users: int = USERS) -> Floats:
    """Values in their own shape: (users, *value)."""
    rng = np.random.default_rng(2)
    if isinstance(domain, bd.device.Bits):
        return (rng.random(users) < 0.6).astype(float)
    if isinstance(domain, bd.device.SymmetricMatrix):
        raw = rng.uniform(-0.4, 0.4, (users, domain.size, domain.size))
        return np.asarray((raw + np.swapaxes(raw, 1, 2)) / 2)
    if isinstance(domain, bd.device.Ball):
        return rng.uniform(-0.3, 0.3, (users, domain.dim))
    return rng.random(users)


@pytest.mark.often(when=lambda domain: isinstance(domain, bd.device.Bits | bd.device.SymmetricMatrix))
@each_domain
@each_model
def test_errors_are_the_predicted_ones(privacy: bd.protocols.Privacy, domain: bd.device.Domain) -> None:
    count, values = counter(privacy, domain), stream(domain)
    found = count.run(np.broadcast_to(values, (DRAWS, *values.shape)))
    assert found.shape == (DRAWS, *values.shape)
    low = count.delay + 1
    exact = np.cumsum(values, axis=0)
    worst = 0.0
    for t in range(1, USERS + 1):
        full = t // low * low
        truth = exact[full - 1] if full else np.zeros_like(exact[0])
        errors = (found[:, t - 1] - truth).reshape(DRAWS, -1)[:, 0]  # a diagonal entry of a matrix
        assert abs(float(np.mean(errors))) <= 5 * count.predicted_std / math.sqrt(DRAWS)
        worst = max(worst, float(np.std(errors)))
    assert 0.85 * count.predicted_std <= worst <= count.predicted_std * (1 + 7 / math.sqrt(2 * DRAWS))
    if privacy.noisy:
        assert count.guarantee.epsilon <= 1.00001 or math.isfinite(count.guarantee.rho)
        assert count.predicted_error >= count.predicted_std > 0


def _has_its_own_code(privacy: bd.protocols.Privacy, domain: bd.device.Domain) -> bool:
    """Every model with bits, but those that are others with noise of another size; every domain with one of them."""
    (name,) = (name for name, model in MODELS.items() if model is privacy)
    other = {bd.device.Box: "local", bd.device.Ball: "shuffle", bd.device.SymmetricMatrix: "2 shufflers"}
    return name not in OTHER_NUMBERS and (isinstance(domain, bd.device.Bits) or name == other[type(domain)])


@pytest.mark.often(when=_has_its_own_code)
@each_domain
@each_model
def test_one_by_one_has_the_law_of_the_whole(privacy: bd.protocols.Privacy, domain: bd.device.Domain) -> None:
    values = stream(domain)[:8]
    few = 120
    singles = np.stack([[u.update(v) for v in values] for u in (counter(privacy, domain, s, 8) for s in range(few))])
    assert singles.shape == (few, *values.shape)
    wide = np.broadcast_to(values, (DRAWS, *values.shape))
    law = counter(privacy, domain, 500, 8).run(wide)
    messages = counter(privacy, domain, 501, 8).run(wide, path="messages")
    for t in (2, 4, 7):
        one, many, sent = (a.reshape(len(a), 8, -1)[:, t, -1] for a in (singles, law, messages))
        if not privacy.noisy:
            assert np.allclose(one, np.cumsum(values, axis=0)[t].reshape(-1)[-1])
            continue
        assert math.sqrt(few * DRAWS / (few + DRAWS)) * stats.ks_2samp(one, many, method="asymp").statistic < BAND
        assert math.sqrt(DRAWS / 2) * stats.ks_2samp(sent, many, method="asymp").statistic < BAND


def test_estimates_have_the_shape_of_a_value() -> None:
    for name, domain in DOMAINS.items():
        count, values = counter(bd.central(**BUDGET), domain), stream(domain)
        assert np.shape(count.estimate) == values.shape[1:]
        estimate = count.update(values[0])
        assert np.shape(estimate) == values.shape[1:]
        assert np.array_equal(estimate, count.estimate)
        assert count.users == 1
        if name in ("bits", "numbers"):
            assert isinstance(estimate, float)
        if name == "matrices":
            assert np.array_equal(estimate, estimate.T)


def test_an_estimate_stands_until_a_batch_is_full() -> None:
    count = counter(bd.concurrent(**BUDGET, shufflers=2, degrees=(4, 3)), bd.device.Bits())
    found = [count.update(1) for _ in range(USERS)]
    assert count.delay == 3
    assert found[:3] == [0.0] * 3
    for start in range(3, USERS - 4, 4):
        assert len(set(found[start : start + 4])) == 1
        assert found[start] != found[start + 4]


@each_model
def test_refused_updates_change_nothing(privacy: bd.protocols.Privacy) -> None:
    values = stream(bd.device.Box(dim=1))
    disturbed, calm = counter(privacy, bd.device.Box(dim=1)), counter(privacy, bd.device.Box(dim=1))
    for t, value in enumerate(values):
        for wrong in (-0.1, 1.1, math.nan, "one", [0.5, 0.5], None):
            with pytest.raises(InvalidStatistic):
                disturbed.update(wrong)
        assert disturbed.update(value) == calm.update(value)
        assert disturbed.users == t + 1
    before = disturbed.estimate
    with pytest.raises(InvalidArgument, match="horizon"):
        disturbed.update(0.5)
    assert (disturbed.estimate, disturbed.users) == (before, USERS)
    with pytest.raises(InvalidArgument, match="horizon"):
        disturbed.run(np.zeros(USERS + 1))
    with pytest.raises(InvalidStatistic):
        disturbed.run([0.5, 2.0])
    with pytest.raises(InvalidStatistic):
        disturbed.run(0.5)


def test_bits_and_matrices_are_checked() -> None:
    with pytest.raises(InvalidStatistic):
        counter(bd.central(**BUDGET), bd.device.Bits()).update(0.5)
    with pytest.raises(InvalidStatistic):
        counter(bd.central(**BUDGET), bd.device.SymmetricMatrix(size=2)).update([[0.0, 0.1], [0.0, 0.0]])
    with pytest.raises(InvalidStatistic):
        counter(bd.central(**BUDGET), bd.device.Ball(dim=2)).update([0.9, 0.9])


@pytest.mark.parametrize(
    ("domain", "wrong", "message"),
    [
        (bd.device.Bits(), 0.5, "value must be 0 or 1, got a value outside"),
        (bd.device.Bits(), "yes", "value must be 0 or 1, got a str"),
        (bd.device.Bits(), None, "value must be 0 or 1, got None"),
        (bd.device.Bits(), [1], "value must be 0 or 1, of shape (), got an array of shape (1,) of floats"),
        (bd.device.Box(dim=1), math.nan, "value must be a number in [0, 1], got a float that is not finite"),
        (bd.device.Box(dim=2, low=-1), [0, 2], "value must be a vector of 2 numbers in [-1, 1], got a value outside"),
        (bd.device.Ball(dim=2), [1, 1], "value must be a vector of 2 numbers with norm at most 1, got a value outside"),
        (bd.device.Ball(dim=2), [0, math.inf], "value[1] must be finite numbers, got a float that is not finite"),
        (
            bd.device.SymmetricMatrix(size=2),
            [[0, 1], [0, 0]],
            "value must be a symmetric 2 x 2 matrix of Frobenius norm at most 1, got a value outside",
        ),
        (
            bd.device.SymmetricMatrix(size=1),
            [[2]],
            "value must be a symmetric 1 x 1 matrix of Frobenius norm at most 1, got a value outside",
        ),
    ],
)
def test_a_refusal_says_what_was_given_and_what_is_allowed(domain: bd.device.Domain, wrong: Any, message: str) -> None:
    with pytest.raises(InvalidStatistic) as caught:
        counter(bd.central(**BUDGET), domain).update(wrong)
    assert str(caught.value) == message


def test_a_refused_stream_says_where() -> None:
    bits = np.zeros((3, 5))
    bits[1, 4] = 0.4
    with pytest.raises(InvalidStatistic, match=r"values\[1, 4\] must be 0 or 1.*, got a value outside"):
        counter(bd.none(), bd.device.Bits()).run(bits)
    for shape in ((0,), (), (3, 0)):
        with pytest.raises(InvalidStatistic, match=r"shape \(\.\.\., users\) with at least one user"):
            counter(bd.none(), bd.device.Bits()).run(np.zeros(shape))
    for shape in ((2,), (5, 3), (0, 2)):
        with pytest.raises(InvalidStatistic, match=r"shape \(..., users, 2\)"):
            counter(bd.none(), bd.device.Ball(dim=2)).run(np.zeros(shape))


@each_domain
@each_model
def test_the_promise_is_about_what_is_counted(privacy: bd.protocols.Privacy, domain: bd.device.Domain) -> None:
    count, noun = counter(privacy, domain), "bit" if isinstance(domain, bd.device.Bits) else {0: "number", 1: "vector"}
    said = noun if isinstance(noun, str) else noun.get(np.ndim(counter(privacy, domain).estimate), "matrix")
    assert count.guarantee.protects == f"a user's {said}"
    assert "features" not in str(count)
    assert ("not yet in it" in str(count)) == (count.delay > 0)
    assert repr(count) == f"<ContinualSum: 0 of 40 users counted, each with a {said}, privacy {privacy.model}>"


def test_bad_configurations_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="shufflers"):
        counter(bd.concurrent(**BUDGET, shufflers=6), bd.device.Bits())
    with pytest.raises(InvalidArgument, match="shufflers"):
        bd.concurrent(**BUDGET, shufflers=0)
    with pytest.raises(InvalidArgument, match=r'shufflers must be a whole number >= 1, or "best".*, got .most.'):
        bd.concurrent(**BUDGET, shufflers="most")
    with pytest.raises(InvalidArgument, match="degrees"):
        bd.concurrent(**BUDGET, degrees="fair")
    with pytest.raises(InvalidArgument, match="horizon"):
        counter(bd.none(), bd.device.Bits(), horizon=0)
    with pytest.raises(InvalidArgument, match="privacy"):
        counter(None, bd.device.Bits())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"values must be a bd.*, got 1"):
        bd.agent.ContinualSum(horizon=5, privacy=bd.none(), values=1)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="participations"):
        counter(bd.shuffle(**BUDGET, participations=2), bd.device.Bits())
    with pytest.raises(InvalidArgument, match="protocol"):
        counter(bd.shuffle(**BUDGET, protocol="gaussian"), bd.device.Bits())
    silent = bd.agent.ContinualSum(horizon=5, privacy=bd.central(**BUDGET))
    assert silent.predicted_std > 0
    for call in (lambda: silent.update(0.5), lambda: silent.run([0.5])):
        with pytest.raises(InvalidArgument, match="source"):
            call()


def test_noise_is_secure_by_default() -> None:
    count = bd.agent.ContinualSum(
        horizon=8, privacy=bd.concurrent(**BUDGET, shufflers=2), values=bd.device.Bits(), source=bd.device.SecureNoise()
    )
    assert count.update(1) == 0.0
    with pytest.raises(InsecureSource):
        count.run([1, 0, 1])
    assert count.run([1, 0, 1], path="messages").shape == (3,)


def test_it_says_what_it_is() -> None:
    text = str(counter(bd.concurrent(**BUDGET, shufflers=2, degrees=(4, 3)), bd.device.Bits()))
    assert text.startswith("Concurrent shuffle differential privacy")
    assert "at most 3" in text
    assert "standard deviation" in text


def test_infinite_epsilon_is_the_plain_sum() -> None:
    for privacy in (bd.none(), bd.concurrent(epsilon=math.inf, delta=1e-5), bd.central(epsilon=math.inf, delta=0.1)):
        count = counter(privacy, bd.device.Box(dim=1))
        assert np.allclose(count.run(stream(bd.device.Box(dim=1))), np.cumsum(stream(bd.device.Box(dim=1))))
        assert (count.predicted_std, count.delay) == (0.0, 0)


@each_model
def test_an_interrupted_update_counts_no_user(privacy: bd.protocols.Privacy, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = counter(privacy, bd.device.Bits())
    for _ in range(5):
        counting.update(1)
    before, state, estimate = counting.users, counting._counter_state, counting.estimate

    class Broken(Estimate):
        def __getattribute__(self, name: str) -> Any:
            if name == "total":
                raise KeyboardInterrupt
            return super().__getattribute__(name)

    release = type(counting.protocol).release

    def interrupted(*arguments: Any, **named: Any) -> Any:
        released = release(*arguments, **named)
        last = released[1] if isinstance(released, tuple) else released
        broken = Broken(total=last.total, count=last.count, variance=last.variance)
        return (released[0], broken) if isinstance(released, tuple) else broken

    with monkeypatch.context() as patched:
        patched.setattr(type(counting.protocol), "release", interrupted)
        with pytest.raises(KeyboardInterrupt):
            counting.update(1)
    assert (counting.users, counting._counter_state, counting.estimate) == (before, state, estimate)
    counting.update(1)
    assert counting.users == before + 1
    if isinstance(counting.protocol, ConcurrentShuffle):
        assert counting._counter_state.state.held.users == before + 1


@each_model
def test_threads_take_turns(privacy: bd.protocols.Privacy, monkeypatch: pytest.MonkeyPatch) -> None:
    counting = counter(privacy, bd.device.Bits(), horizon=200)
    inside, most = [0], [0]
    release = type(counting.protocol).release

    def slowly(*arguments: Any, **named: Any) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.002)
        try:
            return release(*arguments, **named)
        finally:
            inside[0] -= 1

    with monkeypatch.context() as patched:
        patched.setattr(type(counting.protocol), "release", slowly)
        threads = [threading.Thread(target=lambda: [counting.update(1) for _ in range(5)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1]
    assert counting.users == 20


@pytest.mark.parametrize("name", ["none", "central, tree", "local", "2 shufflers"])
def test_an_interrupt_at_any_line_loses_nothing(name: str) -> None:
    made = counter(MODELS[name], bd.device.Bits(), horizon=4000)
    k, calm = 1, 0
    while calm < 3:
        before, trouble = (made.users, made.estimate, made._counter_state.state), Interrupt(k)
        with suppress(KeyboardInterrupt), trouble:
            made.update(1.0)
        calm, k = 0 if trouble.fired else calm + 1, k + 1
        assert made.users in (before[0], before[0] + 1)
        assert (made.users == before[0]) == (made._counter_state.state is before[2] and made.estimate == before[1])
    assert k > 30
    threads = [threading.Thread(target=made.update, args=(1.0,), daemon=True)]  # no lock is held
    threads[0].start()
    threads[0].join(timeout=600)
    assert not threads[0].is_alive()


def test_a_forked_counter_is_refused() -> None:
    made = counter(MODELS["central, blt"], bd.device.Bits())
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with made._alone:
            held.set()
            done.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        answers = in_a_fork(lambda: made.update(1.0), lambda: (repr(made), str(made), made.users, made.estimate))
    finally:
        done.set()
        holder.join()
    assert answers == ["BandannaError", "done"]
