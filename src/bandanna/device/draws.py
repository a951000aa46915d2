"""How a device draws: one parameter for all arms, or the score of each arm by its own parameter.

    shared:  theta = mean + L z,                     score_k = <x_k, theta>
    own:     score_k = <x_k, mean_k> + |L_k^T x_k| z_k,   which has the law of <x_k, theta_k>, theta_k = mean_k + L_k z

Everybody's numbers are formed by themselves: one product for each device, never one for all of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from bandanna.core.arrays import Floats
from bandanna.core.coins import Coins

_DRAW = "posterior"  # what the coins of a draw are called


class Draws(ABC):
    """Scores of arms under draws from N(mean, L L^T). R = replicate axes."""

    @abstractmethod
    def scores(self, mean: Floats, root: Floats, contexts: Floats, coins: Coins) -> Floats:
        """One draw for each device: (*R, n, K, d) -> (*R, n, K)."""

    def alone(self, mean: Floats, root: Floats, arms: Floats, coins: Coins) -> Floats:
        """`scores` of one device, as in an agent, (K, d) -> (K,): the same bits."""
        return np.asarray(self.scores(mean, root, arms[None], coins)[0])

    @abstractmethod
    def expected(self, mean: Floats, contexts: Floats) -> Floats:
        """The means of the scores."""

    @abstractmethod
    def of_table(self, mean: Floats, root: Floats, arms: Floats, users: int, coins: Coins) -> Floats:
        """In the law of `scores`, of arms that stay, (*R, K, d), many devices by one product: (*R, users, K)."""


class Shared(Draws):
    """One parameter, (*R, d)."""

    def scores(self, mean: Floats, root: Floats, contexts: Floats, coins: Coins) -> Floats:
        """Each device draws a parameter."""
        if contexts.shape[:-2] == (1,):
            return self.alone(mean, root, contexts[0], coins)[None]
        z = coins.normal((*contexts.shape[:-2], mean.shape[-1]), _DRAW)
        theta = mean[..., None, :] + (root[..., None, :, :] @ z[..., None])[..., 0]
        return np.asarray((contexts @ theta[..., None])[..., 0])

    def alone(self, mean: Floats, root: Floats, arms: Floats, coins: Coins) -> Floats:
        """In fewer steps."""
        z = coins.normal((1, mean.shape[-1]), _DRAW)
        return np.asarray(arms @ (mean + root @ z[0]))

    def expected(self, mean: Floats, contexts: Floats) -> Floats:
        """<x, mean>."""
        return np.asarray((contexts @ mean[..., None, :, None])[..., 0])

    def of_table(self, mean: Floats, root: Floats, arms: Floats, users: int, coins: Coins) -> Floats:
        """All parameters, then all scores."""
        z = coins.normal((*mean.shape[:-1], users, mean.shape[-1]), _DRAW)
        theta = mean[..., None, :] + z @ np.swapaxes(root, -1, -2)
        return np.asarray(theta @ np.swapaxes(arms, -1, -2))


class Own(Draws):
    """A parameter for each arm, (*R, K, d)."""

    def scores(self, mean: Floats, root: Floats, contexts: Floats, coins: Coins) -> Floats:
        """Each device draws K scores."""
        z = coins.normal(contexts.shape[:-1], _DRAW)
        return np.asarray(self.expected(mean, contexts) + self.spread(root, contexts) * z)

    def expected(self, mean: Floats, contexts: Floats) -> Floats:
        """<x_k, mean_k>."""
        return np.asarray((contexts[..., None, :] @ mean[..., None, :, :, None])[..., 0, 0])

    def spread(self, root: Floats, contexts: Floats) -> Floats:
        """|L_k^T x_k|."""
        rows = (contexts[..., None, :] @ root[..., None, :, :, :])[..., 0, :]
        return np.sqrt((rows[..., None, :] @ rows[..., :, None])[..., 0, 0])

    def of_table(self, mean: Floats, root: Floats, arms: Floats, users: int, coins: Coins) -> Floats:
        """All devices have the same means and deviations."""
        seen = arms[..., None, :, :]
        z = coins.normal((*mean.shape[:-2], users, mean.shape[-2]), _DRAW)
        return np.asarray(self.expected(mean, seen) + self.spread(root, seen) * z)


SHARED, OWN = Shared(), Own()
