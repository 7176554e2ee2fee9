"""The messages in a queue: looked at without touching them."""

from routelog.management.calls.answer import Answer, Pieces
from routelog.management.calls.call import Call
from routelog.management.calls.failures import bad_request, not_found
from routelog.management.calls.message_rows import browsed_row, message_rows, page_of_rows
from routelog.management.calls.message_wanted import message_filter, number_of, places_of
from routelog.vhosts import MessageSearch, Queue, ResourceKind, Verb

COUNT = 100
COUNT_MAX = 1_000  # of one page
TRUNCATE_BYTES = 50_000  # of a body, that are shown unless more are asked for
BODY_BYTES_MAX = 512 * 1024 * 1024  # of the largest message


async def browse_messages(call: Call) -> Answer:
    """Messages of a queue as they lie there, ready and unacknowledged: nothing becomes of them.

    Query:
        offset: to begin with, in each partition; first, last, next; or `next` of the page before
        time: to begin with instead, ISO 8601 or an age such as 1h
        until: what came before, likewise
        partition: only this one
        state: ready, unacked, settled or all; else those that are not settled
        key: their routing key
        header: a header and its value, as name:value
        text: what their bodies hold
        count: at most so many, 1 to 1000
        truncate: bytes of a body that are shown
        encoding: auto or base64
    """
    queue = readable_queue(call)
    count = number_of(call.query, "count", COUNT, COUNT_MAX, least=1)
    bytes_max = number_of(call.query, "truncate", TRUNCATE_BYTES, BODY_BYTES_MAX)
    encoding = call.query.get("encoding", "auto")
    if encoding not in ("auto", "base64"):
        raise bad_request(f"encoding is auto or base64, not '{encoding}'")
    now = call.broker.clock.now()
    wanted = message_filter(call.query, now)
    search = MessageSearch(queue, wanted, places_of(queue, call.query, now))
    ends = [f"{at}:{each.log.visible_end}" for at, each in enumerate(queue.partitions)]
    found = await call.broker.messages.browse(queue, search, count)
    rows = ((browsed_row(each), each.body) for each in found)
    more = {
        "next": ",".join(map(str, search.places)) or None,
        "end": ",".join(ends),
        "looked_at": search.looked_at,
        "unreadable": [str(each) for each in search.unreadable],
    }
    pieces = message_rows(rows, as_text=encoding == "auto", bytes_max=bytes_max)
    return Pieces(page_of_rows(pieces, more))


def readable_queue(call: Call) -> Queue:
    """The queue that the path names, which the caller may read."""
    queue = call.vhost.queues.get(call.path("name"))
    if queue is None or queue.deleted:
        raise not_found()
    call.caller.authorize(queue.vhost, ResourceKind.QUEUE, queue.name, Verb.READ)
    queue.check_access(call)
    return queue
