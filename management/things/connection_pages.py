"""One connection, one channel: who it is, what it does, and why it waits."""

from routelog.management.figures.charts import SAMPLED, message_chart, octet_chart
from routelog.management.pages.change_table import CHANGES
from routelog.management.pages.visit import FIRST_ROWS, Shown, Shows, Visit

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


async def show_connection(visit: Visit) -> Shows:
    """One connection."""
    row = await visit.get(CONNECTION, visit.parts, SAMPLED)
    return Shown(
        "connection.html",
        {
            "connection": row,
            "channels": await visit.table(f"{CONNECTION}/channels", FIRST_ROWS, visit.parts),
            "charts": (octet_chart(row),),
            "waits_for": [WAITS_FOR.get(reason, reason) for reason in row["blocked_by"]],
            "tls": TLS,
            "changes": CHANGES,
        },
    )


async def show_channel(visit: Visit) -> Shows:
    """One channel."""
    row = await visit.get(CHANNEL, visit.parts, SAMPLED)
    return Shown("channel.html", {"channel": row, "charts": (message_chart(row),)})
