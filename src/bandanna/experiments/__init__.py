"""Experiments: comparisons that a file describes, their worker processes, and what they leave."""
