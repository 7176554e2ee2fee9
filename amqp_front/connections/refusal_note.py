"""What the log says of a channel or a connection that ends with an error."""

from typing import Any

from pamqp import commands

from routelog.amqp_front.connections.connection_methods import MethodConnection
from routelog.amqp_front.consuming.client_channel import RefusingChannel
from routelog.amqp_front.wire.errors import AmqpError, LoginRefused, SoftError


def note_refusal(
    connection: MethodConnection,
    answer: AmqpError,
    index: int,
    channel: RefusingChannel | None,
) -> None:
    """Say in the log that a channel, or the connection, ends with an error.

    Args:
        index: class and method, as in a method frame; 0: it was no method.
        channel: where it happened; it alone ends when the error says so.
    """
    if isinstance(answer, LoginRefused):
        return
    method: Any = commands.INDEX_MAPPING.get(index)
    number = channel.number if channel is not None and isinstance(answer, SoftError) else None
    connection.services.vhosts.events.note(
        "connection.refused" if number is None else "channel.refused",
        connection=connection.name,
        channel=number,
        user=connection.user,
        vhost=connection.vhost.name if connection.admitted else None,
        code=answer.code,
        reason=answer.reason,
        method=None if method is None else method.name,
    )
