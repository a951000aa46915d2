"""Budgets, prices, events, accountants, calibration, guarantees and the ledger."""
