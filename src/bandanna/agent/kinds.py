"""Everything that an agent's save may contain: policies, calibrated protocols and their state, by name."""

from __future__ import annotations

from bandanna.core.report import LinearReport
from bandanna.core.sizes import Sizes
from bandanna.policies import anytime, linucb
from bandanna.policies.linear.confidence import PaperConfidence
from bandanna.policies.linear.schedules import FixedBatches, GeometricBatches
from bandanna.protocols.channel import Channel, Running
from bandanna.protocols.kinds import OLDER, PROTOCOLS
from bandanna.storage.encoding import Encoding
from bandanna.storage.saves import Saves

ENCODING = Encoding(
    {
        **PROTOCOLS,
        "LinUCB": linucb.LinUCB,
        "Anytime": anytime.Anytime,
        "PaperConfidence": PaperConfidence,
        "FixedBatches": FixedBatches,
        "GeometricBatches": GeometricBatches,
        "LinearReport": LinearReport,
        "Channel": Channel,
        "Sizes": Sizes,
        "State": linucb.State,
        "AnytimeState": anytime.State,
        "Running": Running,
    },
    older={
        **OLDER,
        "Channel": lambda parts: parts | ({"sizes": Sizes()} if parts["sizes"] == () else {}),  # they were a tuple
        "LinUCB": lambda parts: {"ties": "first"} | parts,  # there were no coins
    },
)
SAVES = Saves(noun="agent", version=1, encoding=ENCODING)
