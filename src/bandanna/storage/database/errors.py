"""What goes wrong with a database, as one error."""

from __future__ import annotations

from bandanna.errors import BandannaError


class StorageFailed(BandannaError):
    """The database did not do what it was asked for: nothing of the transaction is there, unless the message doubts it.

    Once the cause is gone, the next transaction works again.
    """
