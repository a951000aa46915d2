"""By which listener a request came, under which name it asks for the role, and from which network it comes."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from bandanna.errors import InvalidArgument
from bandanna.roles.serving.limits import Limits
from bandanna.roles.serving.places import Places
from bandanna.roles.serving.refusals import Refused

OUTSIDE, AMONG, INSIDE = "outside", "among", "inside"  # for everybody, for other roles, for the operator
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_KEPT = 64  # values of Host, and addresses that were asked under them, that are known to be right
_MAPPED = "::ffff:"


def name_of(url: str) -> str:
    """The name by which a role is asked for at this address; "" without one."""
    return urlsplit(url).hostname or ""


class Doors:
    """The listeners of a process, and who may come by them.

    Parameters
    ----------
    names : Iterable[str]
        Host names under which the role is served, beside the addresses of its own machine.
    limits : Limits
        How many places each listener has.
    """

    def __init__(self, names: Iterable[str], limits: Limits) -> None:
        self._names = {_checked(name) for name in names if name}
        self._right: set[tuple[bytes, str]] = set()
        self._proxies: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        self._kinds: dict[int, str] = {}
        self.kinds = frozenset({OUTSIDE})
        self.places = {kind: Places(limits) for kind in (OUTSIDE, AMONG, INSIDE)}

    def open(self, kinds: dict[int, str], *, names: Iterable[str] = (), proxies: Iterable[str] = ()) -> None:
        """Say which port is which listener, which more names there are, and which proxies are believed.

        Parameters
        ----------
        kinds : dict[int, str]
            The listener of each port; others are for everybody.
        names : Iterable[str]
            More host names.
        proxies : Iterable[str]
            Addresses or networks whose `X-Forwarded-For` is believed; without it they are bounded by nothing here.
        """
        self._kinds, self.kinds = dict(kinds), frozenset({OUTSIDE, *kinds.values()})
        self._names |= {_checked(name) for name in names}
        self._proxies = [_network(each) for each in proxies]
        self._right.clear()

    def door(self, scope: Any) -> str:
        """Name the listener on which a request arrived, so that its rules apply."""
        server = scope.get("server")
        return self._kinds.get(server[1], OUTSIDE) if self._kinds and server else OUTSIDE

    def check(self, scope: Any, headers: dict[bytes, bytes]) -> None:
        """Refuse (421) who asks for a host that is not ours: a page whose name was bound to our address."""
        host, server = headers.get(b"host", b""), scope.get("server")
        asked = host, "" if server is None else server[0]
        if asked in self._right:
            return
        found = _HOST.fullmatch(host.decode("latin-1").lower())
        name = "" if found is None else (found[1] or found[2].removesuffix("."))
        own = asked[1].lower().removeprefix(_MAPPED)
        if not name or not (name in self._names or name == own or (name in _LOOPBACK and _is_loopback(own))):
            raise Refused(421, "host")
        if len(self._right) < _KEPT:
            self._right.add(asked)

    def client(self, host: str, headers: dict[bytes, bytes] | None = None) -> str | None:
        """From which address a request comes, or network of IPv6; None if a proxy does not say it.

        Parameters
        ----------
        host : str
            The address of the other end of the connection.
        headers : dict[bytes, bytes] or None
            The request's; None before they are known.

        Returns
        -------
        str or None
            A key that is kept only as long as the request is not complete.
        """
        if not self._proxies or not self._trusted(host):
            return _key(host)
        told = b"" if headers is None else headers.get(b"x-forwarded-for", b"")
        for each in reversed(told.decode("latin-1").split(",")):
            address = each.strip()
            if address and not self._trusted(address):
                return _key(address)
        return None

    def _trusted(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host.removeprefix(_MAPPED))
        except ValueError:
            return False
        return any(address in network for network in self._proxies)


def _key(host: str) -> str:
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    return str(address.ipv4_mapped or int(address) >> 64)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _checked(name: str) -> str:
    text = name.strip("[]").lower()
    if not re.fullmatch(r"[a-z0-9._-]{1,253}|[0-9a-f:.]{2,45}", text):
        raise InvalidArgument("--host-name", name, "a host name or address, without scheme and port")
    return text.removesuffix(".")


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        allowed = "an address or a network of addresses, such as 10.0.0.7 or 10.0.0.0/24"
        raise InvalidArgument("--proxy", text, allowed) from None
