"""`bandanna paper`, one file per paper: each has `show(figure, options) -> Shown`."""
