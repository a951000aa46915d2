"""Code that runs with a user: domains, statistics, randomizers and the choice of an arm. Needs NumPy alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

_NAMES = {  # modules and the public names that they define
    "action_selection": "Choice",
    "base": "Device Messages",
    "domain": "Ball Bits Box Domain Estimate Statistic SymmetricMatrix",
    "linear_report": "LinearReport",
    "noise": "FastNoise NoiseSource SecureNoise",
    "randomizers": (
        "BinomialCounts CapRandomizer LevelRandomizers NoisyVector PlainVector RandomizedBit RandomizedSign "
        "RepeatedBits RoundedCounts device_from_parameters"
    ),
    "weighted_report": "ImportanceWeightDomain",
}

if TYPE_CHECKING:
    from bandanna.device.action_selection import Choice as Choice
    from bandanna.device.base import Device as Device
    from bandanna.device.base import Messages as Messages
    from bandanna.device.domain import Ball as Ball
    from bandanna.device.domain import Bits as Bits
    from bandanna.device.domain import Box as Box
    from bandanna.device.domain import Domain as Domain
    from bandanna.device.domain import Estimate as Estimate
    from bandanna.device.domain import Statistic as Statistic
    from bandanna.device.domain import SymmetricMatrix as SymmetricMatrix
    from bandanna.device.linear_report import LinearReport as LinearReport
    from bandanna.device.noise import FastNoise as FastNoise
    from bandanna.device.noise import NoiseSource as NoiseSource
    from bandanna.device.noise import SecureNoise as SecureNoise
    from bandanna.device.randomizers import BinomialCounts as BinomialCounts
    from bandanna.device.randomizers import CapRandomizer as CapRandomizer
    from bandanna.device.randomizers import LevelRandomizers as LevelRandomizers
    from bandanna.device.randomizers import NoisyVector as NoisyVector
    from bandanna.device.randomizers import PlainVector as PlainVector
    from bandanna.device.randomizers import RandomizedBit as RandomizedBit
    from bandanna.device.randomizers import RandomizedSign as RandomizedSign
    from bandanna.device.randomizers import RepeatedBits as RepeatedBits
    from bandanna.device.randomizers import RoundedCounts as RoundedCounts
    from bandanna.device.randomizers import device_from_parameters as device_from_parameters
    from bandanna.device.weighted_report import ImportanceWeightDomain as ImportanceWeightDomain
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, {})
