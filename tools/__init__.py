"""Tools of the repository: generated parts of the documentation, and the linter for words."""
