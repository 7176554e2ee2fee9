"""Protection against requests that other sites make a browser send (CSRF).

A page of another site can make a browser send a form or text, and the browser adds the user's password.
Browsers name the site in `Origin`; newer ones also in `Sec-Fetch-Site`, but only over HTTPS and to their own
machine. Programs send neither header.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from routelog.management.calls.failures import Refused

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

_OWN_SITES = ("same-origin", "none")  # "none": the user typed the address
_PORTS = {"http": 80, "https": 443}
_JSON = "application/json"


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
