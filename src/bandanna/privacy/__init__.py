"""What releases cost: budgets, events, prices, the accountant, calibration and the ledger."""

from __future__ import annotations
