"""Protection against requests that other sites make a browser send.

CSRF: a page of another site can make a browser send a form or text, and the browser adds the user's password.
Browsers name the site in `Origin`; newer ones also in `Sec-Fetch-Site`, but only over HTTPS and to their own
machine. Programs send neither header.

DNS rebinding: a page of another site can let its own name lead to this node once it is loaded. The browser then
takes the node for the page's site, and the page may read answers. Such a request has the site's name in `Host`.
An address is no name, and a name without a dot is in nobody's zone. With TLS the browser has seen that the
certificate is not the site's.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from urllib.parse import urlsplit

from routelog.management.calls.failures import Refused, bad_request

ANY = "*"

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_OWN_SITES = ("same-origin", "none")  # "none": the user typed the address
_PORTS = {"http": 80, "https": 443}
_JSON = "application/json"


class HostNames:
    """The names under which a browser may reach the HTTP API of a node.

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


def port_of(host: str, scheme: str) -> int:
    """The port that a request was sent to, as its header `Host` says, which may be empty.

    Raises:
        Refused: 400, the header is malformed.
    """
    try:
        where = urlsplit(f"//{host}")
        port = where.port
        if host and not (host.isascii() and where.netloc == host and where.hostname):
            raise ValueError
    except ValueError:
        raise bad_request("the header 'Host' is malformed") from None
    return port or _PORTS[scheme]


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def check_origin(method: str, headers: Mapping[str, str], scheme: str) -> None:
    """Refuse a change that another site made a browser send.

    Args:
        scheme: of the request, http or https.

    Raises:
        Refused: 403.
    """
    if method in SAFE_METHODS:
        return
    check_site(headers, scheme)
    # A browser asks (preflight) before it sends JSON to another site, and is never allowed to. Forms stay
    # allowed for programs such as curl.
    kind = headers.get("Content-Type", _JSON).partition(";")[0].strip().lower()
    is_browser = any(name in headers for name in ("Origin", "Sec-Fetch-Site", "Cookie"))
    if is_browser and kind != _JSON:
        raise Refused(403, "forbidden", f"a browser has to send {_JSON}")


def check_site(headers: Mapping[str, str], scheme: str) -> None:
    """Refuse a change when the browser says that the page of another site made it.

    Raises:
        Refused: 403.
    """
    site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
    is_other_site = site is not None and site not in _OWN_SITES
    if is_other_site or (
        origin is not None and not _is_own(origin, headers.get("Host", ""), scheme)
    ):
        raise Refused(403, "forbidden", "a request from another site")


def _is_own(origin: str, host: str, scheme: str) -> bool:
    try:
        said, own = urlsplit(origin), urlsplit(f"//{host}")
        said_port, own_port = said.port, own.port
    except ValueError:
        return False
    if said.scheme not in _PORTS or said.hostname is None:
        return False  # "null": a page that hides its site
    if scheme == "https" and said.scheme != scheme:
        return False  # the other case is a proxy that ended TLS
    default = _PORTS[said.scheme]
    return (said.hostname, said_port or default) == (own.hostname, own_port or default)
