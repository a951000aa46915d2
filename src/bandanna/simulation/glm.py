"""Runs generalised linear policies: which runner plays which of them."""

from __future__ import annotations

from collections.abc import Callable

from bandanna.environments.base import World
from bandanna.policies.glm import GLMJDP, GLMSDP, GLMUCB, GLOC, BGLinUCB, ECOLog, GLMPolicy, RSGLinUCB
from bandanna.simulation import glm_batched, glm_jdp, lockstep, rs_glinucb
from bandanna.simulation.run import Run
from bandanna.simulation.tally import Tally

_RUNNERS: dict[type, Callable[..., Run]] = {
    GLMUCB: lockstep.run,
    GLOC: lockstep.run,
    ECOLog: lockstep.run,
    RSGLinUCB: rs_glinucb.run,
    GLMJDP: glm_jdp.run,
    GLMSDP: glm_batched.run,
    BGLinUCB: glm_batched.run,
}

KINDS = tuple(_RUNNERS)


def run(policy: GLMPolicy, world: World, tally: Tally, rounds: int, *, path: str) -> Run:
    """Play `rounds` rounds."""
    return _RUNNERS[type(policy)](policy, world, tally, rounds, path=path)
