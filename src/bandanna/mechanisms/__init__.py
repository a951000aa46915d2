"""Mechanisms: each draws noise (`release`) and states what that release is (`event`), for the accountant to price."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

_NAMES = {  # modules and the public names that they define
    "continual": "ContinualGaussian",
    "noise": (
        "BinomialMechanism DiscreteGaussianMechanism DiscreteLaplaceMechanism GaussianMechanism LaplaceMechanism "
        "Mechanism PrivUnit RandomizedResponse"
    ),
}

if TYPE_CHECKING:
    from bandanna.mechanisms.continual import ContinualGaussian as ContinualGaussian
    from bandanna.mechanisms.noise import BinomialMechanism as BinomialMechanism
    from bandanna.mechanisms.noise import DiscreteGaussianMechanism as DiscreteGaussianMechanism
    from bandanna.mechanisms.noise import DiscreteLaplaceMechanism as DiscreteLaplaceMechanism
    from bandanna.mechanisms.noise import GaussianMechanism as GaussianMechanism
    from bandanna.mechanisms.noise import LaplaceMechanism as LaplaceMechanism
    from bandanna.mechanisms.noise import Mechanism as Mechanism
    from bandanna.mechanisms.noise import PrivUnit as PrivUnit
    from bandanna.mechanisms.noise import RandomizedResponse as RandomizedResponse
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, {})
