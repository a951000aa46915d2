"""Factorisations of the prefix sums: how a stream is turned into released numbers, and these into running totals."""

from __future__ import annotations

from bandanna.accounting.factorisation.base import Factorisation

__all__ = ["Factorisation"]
