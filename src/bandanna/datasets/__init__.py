"""Real data from installed packages or own files, never downloaded: each with a card, features, arms and rewards."""

from __future__ import annotations

from bandanna.datasets.card import Card
from bandanna.datasets.catalogue import cards, load
from bandanna.datasets.dataset import DataSet

__all__ = ["Card", "DataSet", "cards", "load"]
