"""The figures of five papers, as published and ours: `python -m reproductions` lists them."""
