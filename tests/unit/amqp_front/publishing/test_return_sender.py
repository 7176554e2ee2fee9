"""Messages that come back to their client."""

from typing import Any, cast

from support.frame_samples import publish, some_properties
from unit.amqp_front.publishing_channel import Channel, runs

from routelog.amqp_front.publishing.return_sender import ReturnSender


def test_messages_come_back_by_their_index_until_the_channel_is_closed(channel: Channel) -> None:
    (run,) = runs(b"".join(publish(1, "amq.direct", key, b"m") for key in ("a", "b", "c")))
    returns = ReturnSender(cast(Any, channel))
    returns.send(run, [2, 0])
    sent = channel.sent()
    assert [(each.reply_code, each.reply_text) for each in sent] == [(312, "NO_ROUTE")] * 2
    assert [(each.exchange, each.routing_key) for each in sent] == [
        ("amq.direct", "c"),
        ("amq.direct", "a"),
    ]
    returns.close()
    returns.send(run, [1])
    assert channel.sent() == []


def test_a_long_reason_is_cut(channel: Channel) -> None:
    (run,) = runs(publish(1, "", "none", b"m"))
    ReturnSender(cast(Any, channel)).send(run, [0], "x" * 300)
    (sent,) = channel.sent()
    assert (sent.reply_code, sent.reply_text) == (311, "x" * 252 + "...")


def test_their_content_is_what_was_published(channel: Channel) -> None:
    properties = some_properties(content_type="text/plain")
    (run,) = runs(publish(1, "", "none", b"a body", properties))
    ReturnSender(cast(Any, channel)).send(run, [0])
    assert b"text/plain" in channel.written
    assert b"a body" in channel.written
