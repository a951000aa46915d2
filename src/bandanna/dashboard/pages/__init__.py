"""Pages, each of them made of its twin."""
