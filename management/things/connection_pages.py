"""One connection, one channel: who it is, what it does, and why it waits."""

from routelog.management.calls.path_template import filled
from routelog.management.figures.charts import SAMPLED, message_chart, octet_chart
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.visit import FIRST_ROWS, Shown, Shows, Visit
from routelog.management.things.tabs import Tab, Thing, tabs_of

CONNECTION = "/connections/{name}"
CHANNEL = "/channels/{channel}"

# Keys of the API's row.
TLS = {
    "ssl_protocol": "Version",
    "ssl_cipher": "Cipher",
    "peer_cert_subject": "Client's certificate",
    "peer_cert_issuer": "Issued by",
    "peer_cert_validity": "Valid",
}
WAITS_FOR = {
    "disk": "the disk is short of space",
    "memory": "memory is short",
    "files": "no file can be opened",
    "journal": "the disk is slower than what is published",
}


async def show_connection(visit: Visit, tab: str = "") -> Shows:
    """One connection: what it does and why it waits, its channels, and who its client is."""
    row = await visit.get(CONNECTION, visit.parts, SAMPLED)
    tabs = [
        Tab("", "Overview"),
        Tab("channels", "Channels", row["channels"]),
        Tab("client", "Client"),
    ]
    if visit.may_change:
        tabs.append(Tab("danger", "Close", is_grave=True))
    badges = [(row["protocol"], "")] + ([("TLS", "good")] if row["ssl"] else [])
    called = row["user_provided_name"]
    return Shown(
        "things/connection.html",
        {
            "thing": Thing(
                "connection",
                row["name"],
                "/connections",
                "Connections",
                called if isinstance(called, str) else "",
                row["state"],
                tuple(badges),
            ),
            "tabs": tabs_of(CONNECTION, visit.parts, tabs, tab),
            "connection": row,
            "channels": await visit.table(f"{CONNECTION}/channels", FIRST_ROWS, visit.parts),
            "charts": (octet_chart(row),),
            "waits_for": [WAITS_FOR.get(reason, reason) for reason in row["blocked_by"]],
            "tls": TLS,
            "changes": CHANGES,
        },
    )


async def show_channel(visit: Visit, tab: str = "") -> Shows:
    """One channel: what it publishes and takes, and its consumers."""
    row = await visit.get(CHANNEL, visit.parts, SAMPLED)
    tabs = [Tab("", "Overview"), Tab("consumers", "Consumers", row["consumer_count"])]
    connection = row["connection_details"]["name"]
    badges = [(word, "") for word in ("confirm", "transactional") if row[word]]
    thing = Thing(
        "channel",
        row["name"],
        filled(CONNECTION, {"name": connection}),
        connection,
        "",
        row["state"],
        tuple(badges),
    )
    return Shown(
        "things/channel.html",
        {
            "thing": thing,
            "tabs": tabs_of(CHANNEL, visit.parts, tabs, tab),
            "channel": row,
            "charts": (message_chart(row),),
        },
    )
