"""Twins of pages: what each of them shows, as plain values for JSON. A page is made of its twin and nothing else."""
