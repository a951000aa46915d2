"""One target over many workers: blocks of runs are tasks of an executor, and are read in their order.

A block has random streams of its own (`blocks.block`) and says nothing of who ran it, and looks are taken after fixed
numbers of blocks: so the bound, the verdict and the number of runs are the same for any number of workers, and blocks
that nobody needs any more are cancelled when the claim is refuted. Workers build the target anew, once each, from what
it was named by.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Any

from bandanna.audit.blocks import Block, Drawn, block
from bandanna.audit.targets import Target
from bandanna.errors import InvalidArgument
from bandanna.experiments.executors import Executor

Build = Callable[..., Target]  # importable


def over(working: Executor, build: Build, arguments: dict[str, Any], key: Sequence[int]) -> Drawn:
    """Blocks of the target `build(**arguments)`, run by an executor."""
    try:
        made = pickle.dumps((build, arguments))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        allowed = "one that can be sent to other processes: a name, module:Class, or of a class that can be imported"
        raise InvalidArgument("target", arguments.get("target"), allowed) from error

    def drawn(sizes: Sequence[int]) -> Iterator[Block]:
        tasks = {
            number: {"made": made, "key": tuple(key), "number": number, "runs": runs}
            for number, runs in enumerate(sizes)
        }
        waiting: dict[int, Block] = {}
        following = 0
        with closing(working.call_all(block_of, tasks)) as ending:
            for number, both in ending:
                waiting[number] = both
                while following in waiting:
                    yield waiting.pop(following)
                    following += 1

    return drawn


def block_of(*, made: bytes, key: Sequence[int], number: int, runs: int) -> Block:
    """One block, wherever it is run."""
    target = _built(made)
    assert target.draw is not None
    return block(target.draw, key, number, runs)


@lru_cache(maxsize=4)
def _built(made: bytes) -> Target:
    build, arguments = pickle.loads(made)
    target: Target = build(**arguments)
    return target
