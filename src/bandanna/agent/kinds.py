"""Everything that an agent's save may contain: policies, calibrated protocols and their state, by name."""

from __future__ import annotations

from bandanna.accounting.budgets import ZCDP, ApproxDP, PureDP, RenyiDP
from bandanna.accounting.calibration.binomial import BinomialNoise
from bandanna.accounting.encoding import EVENTS
from bandanna.core.report import LinearReport
from bandanna.core.sizes import Sizes
from bandanna.mechanisms.continual.blt import BLTState
from bandanna.mechanisms.continual.tree import Node, TreeState
from bandanna.policies import anytime, linucb
from bandanna.policies.confidence import PaperConfidence
from bandanna.policies.schedules import FixedBatches, GeometricBatches
from bandanna.protocols.central_continual import CentralContinual
from bandanna.protocols.central_continual import analyzer as central
from bandanna.protocols.channel import Channel, Running
from bandanna.protocols.clear import Clear
from bandanna.protocols.concurrent_shuffle import BatchTree, ConcurrentShuffle
from bandanna.protocols.concurrent_shuffle import Running as ConcurrentRunning
from bandanna.protocols.local_gaussian import LocalGaussian
from bandanna.protocols.shuffle_binomial import ShuffleBinomial
from bandanna.protocols.shuffle_gaussian import ShuffleGaussian
from bandanna.protocols.trust import Privacy
from bandanna.storage.encoding import Encoding
from bandanna.storage.saves import Saves

ENCODING = Encoding(
    {
        **EVENTS,
        "LinUCB": linucb.LinUCB,
        "Anytime": anytime.Anytime,
        "PaperConfidence": PaperConfidence,
        "FixedBatches": FixedBatches,
        "GeometricBatches": GeometricBatches,
        "Privacy": Privacy,
        "PureDP": PureDP,
        "ApproxDP": ApproxDP,
        "ZCDP": ZCDP,
        "RenyiDP": RenyiDP,
        "LinearReport": LinearReport,
        "Channel": Channel,
        "Sizes": Sizes,
        "Clear": Clear,
        "CentralContinual": CentralContinual,
        "LocalGaussian": LocalGaussian,
        "ShuffleGaussian": ShuffleGaussian,
        "ShuffleBinomial": ShuffleBinomial,
        "ConcurrentShuffle": ConcurrentShuffle,
        "BatchTree": BatchTree,
        "BinomialNoise": BinomialNoise,
        "State": linucb.State,
        "AnytimeState": anytime.State,
        "Running": Running,
        "CentralRunning": central.Running,
        "ConcurrentRunning": ConcurrentRunning,
        "BLTState": BLTState,
        "TreeState": TreeState,
        "Node": Node,
    },
    since={"LinUCB": {"ties": "first"}},
)
SAVES = Saves(noun="agent", version=1, encoding=ENCODING)
