"""Another site cannot make a browser change something; programs need no header for it."""

import pytest

from routelog.management.calls.failures import Refused
from routelog.management.calls.request_origin import HostNames, check_origin

HOST = "mq.example.com:15672"


def is_allowed(method: str, scheme: str = "http", **headers: str) -> bool:
    said = {"Host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    try:
        check_origin(method, said, scheme)
    except Refused as refusal:
        return refusal.status != 403
    return True


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE"])
@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "http://evil.example:15672",
        "http://mq.example.com",  # another port is another origin
        "http://mq.example.com:80",
        "https://mq.example.com",
        "http://mq.example.com.evil.example:15672",
        "null",
        "file://",
        "",
        "http://",
        "http://[",
        "http://mq.example.com:99999",
        "http://mq.example.com:15672@evil.example",
    ],
)
def test_a_foreign_origin_is_refused(method: str, origin: str) -> None:
    for kind in ("text/plain", "application/json"):
        assert not is_allowed(method, Origin=origin, Content_Type=kind)
    assert is_allowed("GET", Origin=origin)
    assert is_allowed("HEAD", Origin=origin)


@pytest.mark.parametrize(
    ("scheme", "host", "origin", "allowed"),
    [
        ("http", HOST, f"http://{HOST}", True),
        ("http", HOST, f"HTTP://{HOST.upper()}", True),
        ("http", "mq", "http://mq", True),
        ("http", "mq", "http://mq:80", True),
        ("http", "mq:80", "http://mq", True),
        ("http", "mq", "https://mq", True),  # behind a proxy that ends TLS
        ("http", "mq", "https://mq:444", False),
        ("https", "mq", "https://mq:443", True),
        ("https", "mq", "http://mq", False),  # who reads along there must not act here
        ("https", "mq:15671", "http://mq:15671", False),
        ("http", "[::1]:15672", "http://[::1]:15672", True),
        ("http", "", "http://mq", False),
    ],
)
def test_an_origin_is_ones_own_by_scheme_address_and_port(
    scheme: str, host: str, origin: str, allowed: bool
) -> None:
    assert is_allowed("PUT", scheme, Host=host, Origin=origin) == allowed


@pytest.mark.parametrize(
    "kind", ["text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"]
)
def test_a_browser_sends_json_and_curl_what_it_likes(kind: str) -> None:
    assert is_allowed("PUT", Content_Type=kind)
    assert is_allowed("PUT")
    own = {"Origin": f"http://{HOST}"}
    assert not is_allowed("PUT", Content_Type=kind, **own)
    assert not is_allowed("PUT", Content_Type=kind, Sec_Fetch_Site="same-origin")
    assert not is_allowed("PUT", Content_Type=kind, Cookie="a=b")
    assert is_allowed("PUT", Content_Type="application/json; charset=utf-8", **own)
    assert is_allowed("DELETE", **own)


@pytest.mark.parametrize(
    ("site", "allowed"),
    [("none", True), ("same-origin", True), ("same-site", False), ("cross-site", False)],
)
def test_what_a_browser_says_of_the_site_counts(site: str, allowed: bool) -> None:
    assert is_allowed("POST", Sec_Fetch_Site=site) == allowed


NAMES = HostNames(["mq.example.com", "*.svc.cluster.local", "Node-1.Example.COM"])


@pytest.mark.parametrize(
    "host",
    [
        "",
        "localhost",
        "localhost:15672",
        "rabbitmq:15672",
        "127.0.0.1:15672",
        "192.0.2.7",
        "[::1]:15672",
        "[fe80::1]",
        "mq.example.com",
        "MQ.example.com:15672",
        "mq.example.com.",
        "node-1.example.com:80",
        "routelog.default.svc.cluster.local:15672",
    ],
)
def test_names_of_the_node_and_addresses_are_taken(host: str) -> None:
    NAMES.check(host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:15672",
        "127.0.0.1.evil.example",
        "mq.example.com.evil.example",
        "evilmq.example.com",
        "svc.cluster.local.evil.example",
        "localhost.evil.example:15672",
        "1.2.3.4.5",
        "evil.example:port",
        "[evil.example",
        "mq.example.com@evil.example",
        "evil.example/",
        "/evil.example",
        ":15672",
    ],
)
def test_any_other_name_is_refused(host: str) -> None:
    with pytest.raises(Refused, match=r"none of this node's names \(management_names\)") as refused:
        NAMES.check(host)
    assert (refused.value.status, refused.value.error) == (403, "forbidden")
    HostNames(["*"]).check(host)
