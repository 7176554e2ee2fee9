"""Random searches: one that passes over batches finds the same as one that looks at each message."""

from __future__ import annotations

import asyncio
import os
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pamqp.commands import Basic
from support.queue_samples import Node, declare_queue, running_node
from support.waiting import until
from unit.log_backend.open_store import MIB, flushed

from routelog.log_backend import PERSISTENT, LogOptions, PartitionLog, Records, encode_records
from routelog.vhosts import (
    MessageFilter,
    MessageSearch,
    MessageState,
    Place,
    Queue,
    QueueProperties,
)

EXAMPLES = int(os.environ.get("ROUTELOG_TEST_EXAMPLES", "6"))
# Segments of a few batches; all is read from them.
OPTIONS = LogOptions(
    journal_file_bytes=MIB, segment_bytes=1_000, memory_tail_bytes=1, flush_seconds=3600
)
ALL = frozenset(MessageState)

# Few values, so that many are found, or are part of another.
TEXTS = ("", "7", "-7", "300", "ab", "abc", "größe", "n")
KEYS = ("a", "ab", "b", "n")
NAMES = ("n", "nn")
VALUES = (*TEXTS, 7, -7, 300, 70_000, 2**40, True, 1.5)
IDENTIFIERS = ("ab", "abc", "7", "größe")


class Sent(NamedTuple):
    """A message of the model."""

    key: str
    headers: dict[str, object]
    message_id: str | None
    correlation_id: str | None
    body: bytes

    def parts(self) -> tuple[bytes, bytes, bytes]:
        """Key, properties and body as on the wire."""
        properties = Basic.Properties(
            headers=self.headers or None,
            message_id=self.message_id,
            correlation_id=self.correlation_id,
        )
        return self.key.encode(), properties.marshal(), self.body

    def is_wanted(self, wanted: MessageFilter) -> bool:
        """By the values that were sent, not by what became of them."""
        header = True
        if wanted.header is not None:
            value = self.headers.get(wanted.header[0].decode())
            is_key = isinstance(value, str | int) and not isinstance(value, bool)
            header = is_key and str(value).encode() == wanted.header[1]
        return (
            header
            and wanted.key in (None, self.key.encode())
            and (wanted.text or b"") in self.body
            and wanted.message_id in (None, (self.message_id or "").encode() or b"none")
            and wanted.correlation_id in (None, (self.correlation_id or "").encode() or b"none")
        )


MESSAGES = st.builds(
    Sent,
    st.sampled_from(KEYS),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=2),
    st.none() | st.sampled_from(IDENTIFIERS),
    st.none() | st.sampled_from(IDENTIFIERS),
    st.sampled_from(TEXTS).map(lambda text: text.encode() * 40),
)
BATCHES = st.lists(st.lists(MESSAGES, min_size=1, max_size=5), min_size=4, max_size=12)

CONDITIONS: list[tuple[str, object]] = [
    *(("key", key.encode()) for key in (*KEYS, "absent")),
    *(
        ("header", (name.encode(), str(value).encode()))
        for name in (*NAMES, "absent")
        for value in VALUES
    ),
    *(("text", text.encode()) for text in (*TEXTS[1:], "absent")),
    *(
        (name, value.encode())
        for name in ("message_id", "correlation_id")
        for value in (*IDENTIFIERS, "b")
    ),
]
COMBINED = st.lists(
    st.lists(st.sampled_from(CONDITIONS), min_size=2, max_size=3), min_size=5, max_size=10
)


class EachMessage(MessageFilter):
    """A filter that passes over no batch."""

    def may_be_in(self, records: Records) -> bool:
        """See `MessageFilter`."""
        return True


def encoded(sent: Sequence[Sent]) -> Records:
    """A batch of messages."""
    rows, source = array("i"), bytearray()
    for each in sent:
        for part in each.parts():
            rows.extend((len(source), len(part)))
            source += part
    keys = {each.key.encode() for each in sent}
    batch: Records = encode_records(
        memoryview(source),
        memoryview(rows),
        None,
        len(sent),
        b"",
        keys.pop() if len(keys) == 1 else None,
        PERSISTENT,
        0,
    )
    return batch


async def found(queue: Queue, wanted: MessageFilter) -> tuple[list[int], list[str]]:
    """Offsets, and what was unreadable."""
    search = MessageSearch(queue, wanted, [Place(0, 0)])
    offsets = [each.offset async for each in search.found()]
    return offsets, [str(each) for each in search.unreadable]


async def check(queue: Queue, filters: Sequence[dict[str, Any]], sent: Sequence[Sent]) -> None:
    """Every filter finds what it should in the part that can be read."""
    for conditions in filters:
        wanted = MessageFilter(ALL, **conditions)
        offsets, unreadable = await found(queue, wanted)
        assert (offsets, unreadable) == await found(queue, EachMessage(ALL, **conditions))
        end = int(unreadable[0].partition(":")[2]) if unreadable else len(sent)
        assert offsets == [at for at in range(end) if sent[at].is_wanted(wanted)], wanted


async def stored(node: Node, log: PartitionLog) -> None:
    """Have a log in segments only, the sealed ones compressed."""
    await flushed(node.logs)
    await until(lambda: not node.logs._background.tasks)
    log.evict(MIB)
    log._forget_loaded()


async def damage(log: PartitionLog, at: float) -> None:
    """Change an octet in the middle of a segment, and forget what was read."""
    segment = log.segments[int(at * len(log.segments))]
    packed = segment.path.with_suffix(".zlog")
    path = packed if packed.exists() else segment.path
    content = bytearray(path.read_bytes())
    content[segment.file_bytes // 2] ^= 0xFF
    path.write_bytes(content)
    log._forget_loaded()


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_search_with_and_without_passing_over_finds_the_same(compression: str) -> None:
    arguments = {"x-queue-type": "stream", "x-compression": compression}

    @settings(max_examples=EXAMPLES, deadline=None)
    @given(batches=BATCHES, combined=COMBINED, at=st.floats(0, 1, exclude_max=True))
    def searched(
        batches: list[list[Sent]], combined: list[list[tuple[str, object]]], at: float
    ) -> None:
        filters = [dict(each) for each in (*([each] for each in CONDITIONS), *combined)]
        asyncio.run(search_everywhere(batches, filters, at))

    async def search_everywhere(
        batches: list[list[Sent]], filters: list[dict[str, Any]], at: float
    ) -> None:
        sent = [message for batch in batches for message in batch]
        with tempfile.TemporaryDirectory() as folder:
            async with running_node(Path(folder), OPTIONS) as node:
                properties = QueueProperties("q", durable=True, arguments=arguments)
                queue, declared = declare_queue(node.vhost, properties, object())
                assert declared is not None
                await declared
                log = queue.partitions[0].log
                for batch in batches:
                    queue.publish(encoded(batch), waited=False)
                await node.logs.journal.drain()
                await check(queue, filters, sent)
                await stored(node, log)
                await check(queue, filters, sent)
                await damage(log, at)
                await check(queue, filters, sent)

    searched()
