"""What parts of the same features cost together: their worst cases exclude each other (calibration.md 0.4).

Somebody's features |x| <= 1 are replaced by x'. With t = |<x, x'>|, A the squared Gaussian price of all releases of
x x^T and B that of all releases of y x, |y| <= 1, each taken at its own worst case, the two together cost at most

    mu^2 = max over t of A (1 - t^2) + B (1 + t)/2 = A + B/2 + B^2/(16 A)  if B <= 4 A (t = B/(4 A)),  else B (t = 1),

instead of A + B: the vector moves most for x' = -x, and x x^T does not move at all then. Where the matrix is w x x^T
with weights that anybody chose, one of two weights may be 0 beside t = 1: mu^2 = max(the above, A/2 + B).
"""

from __future__ import annotations

from collections.abc import Iterable

from bandanna.accounting.events import RecordEvent

PRICINGS = ("joint", "separate")  # of a matrix and a vector: by the above, or their worst cases added


def together(matrix: float, vector: float, *, weighted: bool) -> float:
    """mu^2 of both, from A and B."""
    both = vector if vector > 4 * matrix else matrix + vector / 2 + (vector**2 / (16 * matrix) if matrix else 0.0)
    return max(both, matrix / 2 + vector) if weighted else both


def joint_share(share: float, *, weighted: bool) -> float:
    """What is really paid of a squared price of which `share` is the matrix's and the rest the vector's."""
    return together(share, 1 - share, weighted=weighted)


def spared(parts: Iterable[tuple[RecordEvent, float]]) -> float:
    """By how much the squared prices of parts add up to more than they cost, by record; of each part its own mu^2.

    These must be prices without rounding, which moves every part whatever x is: what rounding adds stays added.
    """
    squares: dict[str, dict[str, float]] = {}
    for event, square in parts:
        found = squares.setdefault(event.record, {})
        found[event.part] = found.get(event.part, 0.0) + square
    total = 0.0
    for found in squares.values():
        matrix, vector = found.get("matrix", 0.0) + found.get("weighted", 0.0), found.get("vector", 0.0)
        total += matrix + vector - together(matrix, vector, weighted="weighted" in found)
    return max(total, 0.0)
