"""The names under which a browser may reach the HTTP API (DNS rebinding).

A page of another site can let its own name lead to this node once it is loaded. The browser then takes the node
for the page's site, and the page may read answers. Such a request has the site's name in `Host`. An address is
no name, and a name without a dot is in nobody's zone. With TLS the browser has seen that the certificate is not
the site's.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from routelog.management.calls.failures import Refused

ANY = "*"


class HostNames:
    """The names of a node.

    Args:
        names: whole names, or `*.` and a zone, or ANY.
    """

    def __init__(self, names: Iterable[str]) -> None:
        lowered = {name.lower() for name in names}
        self._takes_any = ANY in lowered
        self._names = {name for name in lowered if not name.startswith("*.")}
        self._zones = tuple(name[1:] for name in lowered if name.startswith("*."))

    def check(self, host: str) -> None:
        """Refuse a request that names another host.

        Args:
            host: of the header, with a port or without; empty: there was none, so it was no browser.

        Raises:
            Refused: 403.
        """
        if host and not self._takes_any and not self._has(host):
            name = host[:255]
            reason = f"the host '{name}' is none of this node's names (management_names)"
            raise Refused(403, "forbidden", reason)

    def _has(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname
        except ValueError:
            return False
        if name is None:
            return False
        name = name.removesuffix(".")
        if "." not in name and ":" not in name:
            return True
        return name in self._names or name.endswith(self._zones or "\0") or _is_address(name)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
