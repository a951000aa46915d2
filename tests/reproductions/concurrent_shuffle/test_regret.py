"""LinUCB over concurrent shufflers beside the sequential and the central model, at a small scale."""

from __future__ import annotations

import math

import pytest

from bandanna.errors import InvalidArgument
from reproductions.concurrent_shuffle.regret import CENTRAL, ENTRIES, SEQUENTIAL, Entry, play, policy, regrets


def test_entries_are_run_as_they_say() -> None:
    for entry in ENTRIES:
        made = policy(entry, horizon=400)
        assert made.guarantee.epsilon <= 1.0 + 1e-9
        assert made.guarantee.delta == 1e-5
        if isinstance(entry.shufflers, int):
            assert made._channel.stream.shufflers == entry.shufflers  # type: ignore[union-attr]
    ours, papers = (
        policy(Entry(algorithm="LinUCB-CSDP", shufflers=2, batches=rule), horizon=2000) for rule in ("ours", "paper")
    )
    assert ours._channel.sizes[0] == round(2000 ** (5 / 9))
    assert papers._channel.sizes[0] < ours._channel.sizes[0]


def test_rows_have_ratios_to_the_central_regret() -> None:
    found = regrets(n_seeds=2, horizon=400)
    assert [each.more["name"] for each in found] == [entry.name for entry in ENTRIES]
    central = found[0].row
    assert central["algorithm"] == CENTRAL.algorithm
    assert central["ratio"] == 1.0
    for each in found:
        row = each.row
        assert row["ratio"] == pytest.approx(row["mean"] / central["mean"])
        assert (row["horizon"], row["n_seeds"]) == (400, 2)
        assert row["noise_std"] > 0
    with pytest.raises(InvalidArgument, match="horizon"):
        regrets(n_seeds=2, horizon=10)


def test_one_shuffler_with_our_batches_is_sequential() -> None:
    given = {"horizon": 3000, "n_seeds": 30, "seed": 3, "width": 1.0}
    one, sequential = (
        play(entry=entry, **given).result
        for entry in (Entry(algorithm="LinUCB-CSDP", shufflers=1, batches="ours"), SEQUENTIAL)
    )
    spread = math.hypot(one.stderr()[-1], sequential.stderr()[-1])
    assert abs(one.mean()[-1] - sequential.mean()[-1]) < 5 * spread


@pytest.mark.full
def test_the_best_k_beats_one_shuffler() -> None:
    """At T = 200,000 the best k is not better than k = 1 by more than 3 standard errors, with either rule for batches.

    With 50 seeds it is better by 4.7 (ours) and 11 standard errors; the seeds are fixed.
    """
    for batches in ("ours", "paper"):
        one, best = (
            play(
                entry=Entry(algorithm="LinUCB-CSDP", shufflers=k, batches=batches),
                horizon=200_000,
                n_seeds=50,
                seed=0,
                width=1.0,
            ).result
            for k in (1, "best")
        )
        spread = math.hypot(one.stderr()[-1], best.stderr()[-1])
        assert one.mean()[-1] - best.mean()[-1] > 3 * spread
