"""Devices and domains from plain values, as a task's document holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bandanna.core.corrections import Corrections
from bandanna.core.domain import Ball, Box
from bandanna.core.intercept import InterceptReport
from bandanna.core.per_arm import PerArmReport
from bandanna.core.report import LinearReport
from bandanna.core.shapes import Bits, SymmetricMatrix
from bandanna.core.weights import Weights
from bandanna.device.base import Device, plain
from bandanna.device.caps import Direction
from bandanna.device.choosing import ByPlace, Chooser, Optimist, Thompson
from bandanna.device.counts import Answer, Copies, Counts, Rounded, Sign
from bandanna.device.levels import Levels
from bandanna.device.reports import Noisy, Plain
from bandanna.device.telling import Public, Regressed, Rewarded, Tell, Weighted
from bandanna.errors import InvalidArgument
from bandanna.storage.declared import by_name, name_of

_DOMAINS = (Ball, Box, Bits, LinearReport, InterceptReport, PerArmReport, SymmetricMatrix, Weights, Corrections)
_DEVICES = (Plain, Noisy, Counts, Rounded, Copies, Answer, Sign, Direction, Levels)
_CHOOSERS = (Thompson, Optimist, ByPlace)
_TELLS = (Regressed, Weighted, Public, Rewarded)
_KINDS = by_name(*_DOMAINS, *_DEVICES, *_CHOOSERS, *_TELLS)


def from_parameters(parameters: Mapping[str, Any]) -> Device:
    """The device whose `parameters` these are; its messages are the same under the same randomness."""
    made: Device = _one_of(_DEVICES, parameters)
    return made


def chooser(parameters: Mapping[str, Any]) -> Chooser | ByPlace:
    """How devices choose, from plain values."""
    made: Chooser | ByPlace = _one_of(_CHOOSERS, parameters)
    return made


def tell(parameters: Mapping[str, Any]) -> Tell:
    """What devices tell, from plain values."""
    made: Tell = _one_of(_TELLS, parameters)
    return made


def _one_of(kinds: tuple[type, ...], parameters: Mapping[str, Any]) -> Any:
    made = _made(parameters)
    if not isinstance(made, kinds):
        raise InvalidArgument("parameters", _kind(parameters), f"one of {[name_of(kind) for kind in kinds]}")
    return made


def _kind(value: Any) -> Any:
    return value.get("kind") if isinstance(value, Mapping) else type(value).__name__


def _made(value: Any) -> Any:
    """A value of a known kind; unknown kinds, missing fields and fields of other versions are refused."""
    if isinstance(value, list):
        return tuple(_made(part) for part in value)
    if not isinstance(value, Mapping):
        return value
    kind = _KINDS.get(str(value.get("kind")))
    if kind is None:
        raise InvalidArgument("kind", value.get("kind"), f"one of {sorted(_KINDS)}")
    names = {each.name for each in fields(kind) if each.init}
    if set(value) != {"kind", *names}:
        raise InvalidArgument("parameters", sorted(map(str, value)), f"kind, {', '.join(sorted(names))}")
    made = kind(**{name: _made(value[name]) for name in names})
    if plain(made) != dict(value):
        raise InvalidArgument("parameters", dict(value), f"those of a {name_of(kind)}: {plain(made)}")
    return made
