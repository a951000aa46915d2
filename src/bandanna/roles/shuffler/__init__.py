"""The party that users trust to forget: it adds counts, forwards one total per batch, and deletes the rest."""
