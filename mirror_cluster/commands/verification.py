"""Compares what the nodes of a cluster have, as they run: each sends the digest of its data at one position."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial

import msgspec

from routelog.log_backend import (
    BadDigest,
    Difference,
    DigestEnd,
    DigestMessage,
    DigestProgress,
    DigestRefused,
    DigestStand,
    Piece,
    differences,
    next_key,
    random_key,
)
from routelog.mirror_cluster.links.copy_stream import (
    Stream,
    receive_digest,
    send_digest,
    stream_over,
)
from routelog.mirror_cluster.links.given_link import connect, connect_given
from routelog.mirror_cluster.links.introduction import Opening, Purpose
from routelog.mirror_cluster.node.cluster_options import ClusterOptions
from routelog.mirror_cluster.node.incarnation import new_number

OPERATOR = "operator"  # who connects
DIFFERENCES_MAX = 1_000  # that are kept; the rest is counted

Progress = Callable[[int, int], None]  # bytes done, and of how many


class NodeResult(msgspec.Struct, frozen=True):
    """What a node has.

    Attributes:
        problem: why it could not be compared; empty: it was.
        digest: one number of what is not settled, and of where the journal ends.
    """

    node: str
    problem: str = ""
    position: int = 0
    digest: str = ""
    blocks: int = 0
    partitions: int = 0
    records: int = 0


class Verified(msgspec.Struct, frozen=True):
    """What came of a comparison.

    Attributes:
        equal: several nodes were compared, and have the same.
        complete: all nodes were compared, those among them that only the nodes know.
        position: of the journal, at which they were.
        count: of the differences, of which `differences` may be the first ones.
    """

    cluster: str
    equal: bool
    complete: bool
    summary: str
    position: int
    nodes: list[NodeResult]
    count: int
    differences: list[Difference]


class NodeFailed(Exception):
    """A node gives no digest; the text says why."""


async def verify(options: ClusterOptions, progress: Progress) -> Verified:
    """Compare all nodes that can be reached.

    Args:
        progress: called with what all of them have read so far.
    """
    comparison = _Comparison(options, progress)
    try:
        await comparison.run()
    finally:
        comparison.close()
    return comparison.result()


class _Comparison:
    def __init__(self, options: ClusterOptions, progress: Progress) -> None:
        self._options = options
        self._progress = progress
        self._read: dict[str, DigestProgress] = {}
        self._digests = {
            name: _NodeDigest(options, name, partial(self._heard, name))
            for name in options.addresses
        }
        self._problems: dict[str, str] = {}
        self._unknown: list[NodeResult] = []
        self._differences: list[Difference] = []
        self._count = self._position = 0

    async def run(self) -> None:
        await self._all(lambda each: each.open())
        for name in sorted({name for each in self._able.values() for name in each.replicas}):
            if name not in self._digests:
                self._unknown.append(NodeResult(name, "it has a copy, and is not in cluster_nodes"))
        if len(self._able) > 1:
            self._position = max(each.stands for each in self._able.values())
            await self._all(lambda each: each.begin(self._position))
        while len(self._able) > 1 and (heads := self._heads()):
            key = next_key(heads.values())
            group = {name: piece for name, piece in heads.items() if piece.key == key}
            for each in differences(group, self._able):
                self._count += 1
                if len(self._differences) < DIFFERENCES_MAX:
                    self._differences.append(each)
            await self._all(lambda each: each.advance(), group)

    def close(self) -> None:
        for each in self._digests.values():
            each.close()

    def result(self) -> Verified:
        nodes = [each.result(self._problems.get(name, "")) for name, each in self._digests.items()]
        nodes += self._unknown
        compared = [each for each in nodes if not each.problem]
        is_compared = len(compared) > 1
        return Verified(
            self._options.name,
            equal=is_compared and not self._count,
            complete=len(compared) == len(nodes) > 1,
            summary=self._in_words(compared, [each.node for each in nodes if each.problem]),
            position=self._position,
            nodes=nodes,
            count=self._count,
            differences=self._differences,
        )

    def _in_words(self, compared: Sequence[NodeResult], missing: Sequence[str]) -> str:
        names = ", ".join(each.node for each in compared)
        if len(compared) < 2:
            return f"nothing was compared: {names or 'nobody'} alone has a digest"
        left = f"; not compared: {', '.join(missing)}" if missing else ""
        at = f"up to position {self._position:,}"
        if self._count:
            differ = _counted(self._count, "difference")
            return f"{names} do not have the same {at}: {differ}{left}{self._advice()}"
        most = max(compared, key=lambda each: each.records)
        has = f"{_counted(most.records, 'record')} in {_counted(most.partitions, 'partition')}"
        return f"{names} have the same {at}: {has}{left}"

    def _advice(self) -> str:
        """What to do, where one node is unlike the others; of two nobody knows which one is right."""
        unlike = {name for each in self._differences for name in each.nodes}
        others = max(len(each.others) for each in self._differences)
        return f": `routelog cluster repair {unlike.pop()}`" if len(unlike) == 1 < others else ""

    @property
    def _able(self) -> "dict[str, _NodeDigest]":
        return {name: each for name, each in self._digests.items() if name not in self._problems}

    def _heads(self) -> dict[str, Piece]:
        return {name: each.head for name, each in self._able.items() if each.head is not None}

    def _heard(self, node: str, message: DigestProgress) -> None:
        self._read[node] = message
        read = self._read.values()
        self._progress(sum(each.done for each in read), sum(each.total for each in read))

    async def _all(
        self,
        work: "Callable[[_NodeDigest], Coroutine[None, None, None]]",
        names: Collection[str] | None = None,
    ) -> None:
        """Have some nodes, or all, do something; without those that fail it goes on."""
        able = {name: each for name, each in self._able.items() if names is None or name in names}
        done = await asyncio.gather(*(work(each) for each in able.values()), return_exceptions=True)
        for name, error in zip(able, done, strict=True):
            if isinstance(error, NodeFailed):
                self._problems[name] = str(error)
            elif error is not None:
                raise error


class _NodeDigest:
    """The digest of one node, as it comes.

    Attributes:
        stands: position of the node's files.
        replicas: names of all nodes that are to have copies, as this one knows.
        head: the piece that comes next; None: that was all.
    """

    def __init__(
        self, options: ClusterOptions, name: str, heard: Callable[[DigestProgress], None]
    ) -> None:
        self.stands = 0
        self.replicas: Sequence[str] = ()
        self.head: Piece | None = None
        self._options = options
        self._name = name
        self._heard = heard
        self._streams: list[Stream] = []
        self._end: DigestEnd | None = None

    async def open(self) -> None:
        """Connect, and wait until the node's files are there."""
        options, name = self._options, self._name
        opening = Opening(options.name, OPERATOR, name, new_number(), Purpose.DIGEST, random_key())
        reach = partial(connect, options.addresses[name], tls=options.tls)
        try:
            await connect_given(
                opening,
                options.secret,
                None,
                lambda *given: self._streams.append(stream_over(*given)),
                reach,
            )
        except OSError as error:
            raise NodeFailed(f"it cannot be reached: {error or 'no answer in time'}") from None
        stand = await self._receive()
        if not isinstance(stand, DigestStand):
            raise NodeFailed(f"it sent a {type(stand).__name__}")
        self.stands, self.replicas = stand.position, stand.replicas

    async def begin(self, position: int) -> None:
        """Ask for the digest at a position."""
        try:
            await send_digest(self._streams[0][1], DigestStand(position))
        except OSError as error:
            raise NodeFailed(f"the connection has ended: {error}") from None
        await self.advance()

    async def advance(self) -> None:
        """Take the digest's next piece."""
        if isinstance(self.head, DigestEnd):
            self._end, self.head = self.head, None
            return
        piece = await self._receive()
        if not isinstance(piece, Piece):
            raise NodeFailed(f"it sent a {type(piece).__name__}")
        self.head = piece

    def close(self) -> None:
        """End the connection."""
        for _, writer in self._streams:
            writer.transport.abort()

    def result(self, problem: str) -> NodeResult:
        """What has come of it."""
        end = self._end
        if problem or end is None:
            return NodeResult(self._name, problem or "the others gave no digest")
        digest = f"{end.checksum:08x}"
        counts = end.blocks, end.partitions, end.records
        return NodeResult(self._name, "", end.position, digest, *counts)

    async def _receive(self) -> DigestMessage:
        try:
            while isinstance(message := await receive_digest(self._streams[0][0]), DigestProgress):
                self._heard(message)
        except TimeoutError:
            raise NodeFailed("it says nothing any more") from None
        except (EOFError, OSError) as error:
            raise NodeFailed(f"the connection has ended: {error}") from None
        except BadDigest as error:
            raise NodeFailed(f"it is not understood: {error}") from None
        if isinstance(message, DigestRefused):
            raise NodeFailed(message.reason)
        return message


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
