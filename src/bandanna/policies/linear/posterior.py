"""What noisy sums say about a parameter: a Gaussian posterior that knows how much noise is in the sums.

Released are v = sum x y + h and G = sum x x^T + N, with known variances of h and N. So

    v = G theta + (h - N theta + e),     e = sum x (y - <x, theta>) with covariance s^2 sum x x^T,

and with R = Omega + s^2 G_+, Omega_ii = var(h_i) + sum_j var(N_ij) tau_j, where tau_j = E theta_j^2 of the prior,

    P = G_+ R^{-1} G_+ + T^{-1},   theta_hat = P^{-1} G_+ R^{-1} v,   T = diag(tau)

is the posterior's precision and mean; G_+ is G with negative eigenvalues cut to 0. Nothing but released and public
numbers enters: whatever is made of a posterior costs no privacy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bandanna.core.arrays import Floats


def posterior(
    vector: Floats,
    matrix: Floats,
    *,
    noise: tuple[Floats, Floats],
    second_moments: Floats,
    reward_std: float,
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Mean (*R, d), a root of the covariance (*R, d, d), and whose eigenvalues were cut (*R).

    noise: variances of the entries of `vector` (d,) and `matrix` (d, d). A root L has L L^T = P^{-1}.
    """
    positive, cut = _positive(matrix)
    omega = noise[0] + noise[1] @ second_moments  # (d,)
    if np.any(omega > 0):
        known = np.linalg.solve(np.diag(omega) + reward_std**2 * positive, positive)  # R^{-1} G_+
        pulled = np.swapaxes(known, -1, -2)
    else:
        pulled = np.broadcast_to(np.eye(len(omega)) / reward_std**2, positive.shape)  # G_+ G_+^{-1} / s^2
    information = pulled @ positive
    information = (information + np.swapaxes(information, -1, -2)) / 2
    values, vectors = np.linalg.eigh(information * _outer(np.sqrt(second_moments)))  # T^{1/2} G R^{-1} G T^{1/2}
    spread = np.sqrt(second_moments)[:, None] * vectors / np.sqrt(1 + np.maximum(values, 0.0))[..., None, :]
    mean = spread @ (np.swapaxes(spread, -1, -2) @ (pulled @ vector[..., None]))
    return mean[..., 0], spread, cut


def _positive(matrix: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Without its negative eigenvalues, and whether there were any."""
    values, vectors = np.linalg.eigh(matrix)
    kept = np.maximum(values, 0.0)
    return (vectors * kept[..., None, :]) @ np.swapaxes(vectors, -1, -2), np.any(values < 0, axis=-1)


def _outer(scale: Floats) -> Floats:
    return np.asarray(scale[:, None] * scale)
