"""What runs with a user: clip, pack, encode, draw noise and coins, choose arms. NumPy and nothing else."""
