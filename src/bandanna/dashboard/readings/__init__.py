"""What publications tell everybody: rewards, regret, parameters and plays, each with its noise, or why not.

Nothing is read but states, snapshots and plans as they were published: post-processing of releases.
"""

from __future__ import annotations

from bandanna.dashboard.readings.base import Band, Named, Reader, Reading
from bandanna.dashboard.readings.finite import EpisodesReader, TalliesReader
from bandanna.dashboard.readings.linear import LinearReader
from bandanna.dashboard.readings.rewards import RewardsReader
from bandanna.policies.arms.finite import FiniteArmed
from bandanna.policies.arms.thompson import Thompson
from bandanna.policies.arms.ucb1 import EveryRound
from bandanna.policies.arms.ucb_episodes import UCBEpisodes
from bandanna.policies.linear.lints import LinTS
from bandanna.policies.linear.linucb import LinUCB
from bandanna.policies.linear.rewards_only import LinTSRewards
from bandanna.tasks.document import Task

__all__ = ["Band", "Named", "Reader", "Reading", "reader_of"]


def reader_of(task: Task) -> Reader:
    """For the task's policy; one that nobody knows better is read by what all policies publish."""
    policy = task.policy
    if isinstance(policy, LinTS | LinUCB):
        return LinearReader(task, policy)
    if isinstance(policy, LinTSRewards):
        return RewardsReader(task, policy)
    if isinstance(policy, UCBEpisodes):
        return EpisodesReader(task, policy)
    if isinstance(policy, EveryRound | Thompson) and isinstance(policy, FiniteArmed):
        return TalliesReader(task, policy)
    return Reader(task)
