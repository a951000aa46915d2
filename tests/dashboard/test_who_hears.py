"""What the public stream tells: that something public has changed, and nothing else."""

from __future__ import annotations

from bandanna.deployment.dashboard.poller import TaskPoller


def test_news_for_administrators_are_not_told_to_everybody() -> None:
    watch = TaskPoller("http://analyzer.test", web=None)  # type: ignore[arg-type]
    watch.tell(counts=("answers", 1))
    assert (watch.version, watch.changes) == (0, 1)
    watch.tell(counts=("answers", 1))
    watch.tell(statuses=(("shuffler", "well"),), warnings=("late",))
    assert (watch.version, watch.changes) == (1, 2)
