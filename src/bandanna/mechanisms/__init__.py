"""Noise: each mechanism is one value that samples and states its price."""
