"""What goes wrong with a database, as one error."""

from __future__ import annotations

from bandanna.errors import BandannaError


class StorageFailed(BandannaError):
    """The database did not do what it was asked for: nothing of the transaction is there, unless the message doubts it.

    Once the cause is gone, the next transaction works again.
    """


class Fenced(StorageFailed):
    """Another process has taken over the database: this one writes nothing more, and has to end.

    What it remembers may be old, so that nothing it could say is worth hearing. Whoever asks comes again, and is
    answered by the process that serves now.
    """
