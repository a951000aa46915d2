"""Mixers as texts that a task's plan holds, and the way of a batch through one: add, draw, close, forget."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from bandanna.device import Messages
from bandanna.protocols.concurrent_shuffle.views import Full, HeldLevels
from bandanna.protocols.roles import Held, Mixer
from bandanna.storage.declared import kinds_of, registrations
from bandanna.storage.encoding import Encoding


def mixers() -> Encoding:
    """Mixers, what they hold and what they forward, of all kinds that this program has loaded."""
    return _encoding(registrations())


@lru_cache(maxsize=1)
def _encoding(_: int) -> Encoding:
    """The types of fields are walked once for each set of registered classes: a batch close asks some 50 times."""
    return Encoding(kinds_of(Mixer, Held, HeldLevels, Full))


def mixed(
    mixer: Mixer, held: Any, messages: Messages, finish: Callable[[Mixer, Any], Any] | None = None
) -> tuple[Any, tuple[Any, ...]]:
    """What is held after a batch, (users, length) in the order of their places, and the views to forward.

    finish: what is done with what is held before it is closed, by mixers that draw noise.
    """
    views = []
    for portion in mixer.portions(held, messages):
        held = mixer.add(held, portion)
        held = held if finish is None else finish(mixer, held)
        views.append(mixer.close(held))
        held = mixer.forget(held)
    return held, tuple(views)
