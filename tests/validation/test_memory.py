"""What would not fit into memory is refused before it is tried."""

from __future__ import annotations

import pytest

import bandanna as bd
from bandanna import validation
from bandanna.device.linear_report import LinearReport
from bandanna.errors import InvalidArgument


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 1 GB."""
    monkeypatch.setattr(validation, "read_available_memory", lambda: 10**9)


@pytest.mark.usefixtures("small")
def test_reports_that_do_not_fit_are_refused_with_their_size() -> None:
    with pytest.raises(InvalidArgument, match=r"got 10000. .* 2.8 GB of memory for .* 50,015,000 coordinates"):
        LinearReport(features=10_000)
    assert LinearReport(features=1000).dim == 501_500


@pytest.mark.usefixtures("small")
def test_a_batch_that_does_not_fit_is_refused_by_the_agent() -> None:
    policy = bd.LinUCB(dim=640, horizon=1000, batch=500, privacy=bd.none())
    with pytest.raises(InvalidArgument, match=r"got 500. .* 2.5 GB of memory for .* 205,760 numbers each, .* 1.0"):
        bd.Agent(policy=policy)
    with pytest.raises(InvalidArgument, match="batch must be smaller, got 500"):
        bd.Agent(policy=bd.policies.Anytime(first=policy))
    assert bd.Agent(policy=bd.LinUCB(dim=640, horizon=1000, batch=10, privacy=bd.none())).decisions == 0


def test_the_machine_says_how_much_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 10**8 < validation.read_available_memory() < 10**14

    def silent(_: str) -> int:
        raise ValueError

    monkeypatch.setattr("os.sysconf", silent)
    assert validation.read_available_memory() == 2**40
