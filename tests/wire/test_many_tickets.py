"""Tickets checked many at a time."""

from __future__ import annotations

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from bandanna.wire.ticket import Tickets, ticket


@given(
    st.binary(min_size=1, max_size=100),
    st.binary(min_size=32, max_size=32),
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.binary(min_size=16, max_size=16)), max_size=6),
)
def test_many_agree_as_one_does(key: bytes, task: bytes, some: list[tuple[int, bytes]]) -> None:
    """A checker of many agrees with the tickets that `ticket` makes (RFC 2104's HMAC), and with no other."""
    tickets = Tickets(key, task)
    for epoch, slot in some:
        mac = ticket(key, task, epoch, slot)
        message = b"ticket|" + task + b"|" + epoch.to_bytes(4, "little") + b"|" + slot
        assert mac == hmac.new(key, message, hashlib.sha256).digest()[:16]
        assert tickets.agree(mac, epoch, slot)
        assert not tickets.agree(mac, (epoch + 1) % 2**32, slot)
        assert not tickets.agree(bytes([mac[0] ^ 1]) + mac[1:], epoch, slot)
        assert not tickets.agree(mac[:15], epoch, slot)
        assert tickets.agree(mac, epoch, slot)
