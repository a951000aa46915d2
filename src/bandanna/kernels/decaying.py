"""Noise of running sums that is drawn where it is used: sums of independent numbers, each with a decay of its own,

    y_t = sum_i a_i s_i(t),    s_i(t) = r_i s_i(t - 1) + z_t,    z_t ~ N(0, std^2):

of Gaussian reports a = r = 1, of a BLT its `modes`. The NumPy code is `players.noise.noise_blocks`, with the same z bit
for bit; with a = r = 1 so are the sums, and else they differ by some units in the last place.
"""

from __future__ import annotations

from bandanna.core.arrays import Floats
from bandanna.kernels.jit import jit
from bandanna.kernels.ziggurat import Words, normals


@jit
def next_noise(
    words: Words,  # (4,): of a generator, changed
    std: float,
    decays: Floats,  # r, (m,)
    shares: Floats,  # a, (m,)
    states: Floats,  # s, (dim, m), changed
    drawn: Floats,  # (dim, 1): room for z
    exact: Floats,  # (dim,)
    out: Floats,  # (dim,)
) -> None:
    """out = exact + y of the next step."""
    normals(words, drawn.shape[1], drawn)
    for i in range(len(exact)):
        number, noise = std * drawn[i, 0], 0.0
        for m in range(len(decays)):
            states[i, m] = decays[m] * states[i, m] + number
            noise += shares[m] * states[i, m]
        out[i] = exact[i] + noise
