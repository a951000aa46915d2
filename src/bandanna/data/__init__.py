"""Data: feature maps, logs, replay, off-policy evaluation and public data sets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandanna._lazy import load_lazily

_NAMES = {  # modules and the public names that they define
    "logs": "Log",
    "replay": "Replay",
}
_MODULES = {"datasets": "datasets", "features": "features", "ope": "ope"}

if TYPE_CHECKING:
    from bandanna.data import datasets as datasets
    from bandanna.data import features as features
    from bandanna.data import ope as ope
    from bandanna.data.logs import Log as Log
    from bandanna.data.replay import Replay as Replay
else:
    __getattr__, __dir__, __all__ = load_lazily(__name__, _NAMES, _MODULES)
