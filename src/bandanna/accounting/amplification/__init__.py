"""Amplification by shuffling: what the shuffled Gaussian reports of a batch (P_Amp) cost, and the least noise.

`blanket` and `returning` price Gaussian reports; `clones` and `loss` any reports that are private on their own.
"""

from __future__ import annotations

from bandanna.accounting.amplification.blanket import REPORT_TAILS, stop_loss
from bandanna.accounting.amplification.clones import clones_delta, clones_tail, tail_weight
from bandanna.accounting.amplification.closed_form import amplification_closed_form
from bandanna.accounting.amplification.loss import clones_pld
from bandanna.accounting.amplification.returning import blanket_pld
from bandanna.accounting.amplification.shuffled_gaussian import (
    composed_shuffled_gaussian_delta,
    composed_shuffled_gaussian_epsilon,
    composed_shuffled_gaussian_std,
    shuffled_gaussian_delta,
    shuffled_gaussian_epsilon,
    shuffled_gaussian_std,
)

__all__ = [
    "REPORT_TAILS",
    "amplification_closed_form",
    "blanket_pld",
    "clones_delta",
    "clones_pld",
    "clones_tail",
    "composed_shuffled_gaussian_delta",
    "composed_shuffled_gaussian_epsilon",
    "composed_shuffled_gaussian_std",
    "shuffled_gaussian_delta",
    "shuffled_gaussian_epsilon",
    "shuffled_gaussian_std",
    "stop_loss",
    "tail_weight",
]
