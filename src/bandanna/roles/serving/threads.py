"""What blocks runs in a thread of the application's pool."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

ValueT = TypeVar("ValueT")


def pool(threads: int) -> ThreadPoolExecutor:
    """The running loop's threads from now on. Their queue is as short as the application's limit of requests."""
    threads_of_loop = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="blocking")
    asyncio.get_running_loop().set_default_executor(threads_of_loop)
    return threads_of_loop


async def in_thread(function: Callable[..., ValueT], *args: object) -> ValueT:
    """`function(*args)`, while others are served. It runs to its end even if nobody waits for it any more."""
    call = partial(contextvars.copy_context().run, function, *args)
    return await asyncio.get_running_loop().run_in_executor(None, call)
