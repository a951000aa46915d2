"""Where a command will write: found out before the work is done."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bandanna.core import require
from bandanna.errors import BandannaError


def folder_for(argument: str, path: Path) -> Path:
    """A folder that is there, or can be made, and can be written into; nothing is left behind."""
    place = require.path(argument, path, folder=True).absolute()
    while not place.exists() and not place.is_symlink():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            return path
    except OSError as error:
        raise BandannaError(f"{argument} = {path} cannot be written: {error.strerror or error} ({place})") from error


def figures_for(argument: str, path: Path) -> Path:
    """A folder for figures, and what it takes to draw them."""
    from bandanna.figures.axes import drawable

    drawable()
    return folder_for(argument, path)


def figure_for(argument: str, path: Path) -> Path:
    """A file for a figure: of a known format, in a folder that is there, with what it takes to draw."""
    from bandanna.figures.axes import drawable

    drawable(path, argument)
    return file_for(argument, path)


def file_for(argument: str, path: Path) -> Path:
    """A file in a folder that is there, and can be written into."""
    if path.is_dir():
        raise BandannaError(f"{argument} = {path} cannot be written: it is a folder")
    if not path.absolute().parent.is_dir():
        raise BandannaError(f"{argument} = {path} cannot be written: {path.parent} is not a folder")
    folder_for(argument, path.parent)
    return path
