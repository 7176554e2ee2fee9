"""Publishing of dead letters to the dead letter exchange of their queue."""

from routelog.log_backend import BLIND_COPIES, PERSISTENT, Records
from routelog.vhosts.posting.internal_publish import OutgoingMessage, Settle
from routelog.vhosts.posting.internal_publisher import Done, InternalPublisher
from routelog.vhosts.rules.death import DeadLetter, Death, dead_letter, own_deaths


class DeadLetterPublisher:
    """Makes dead letters of messages and publishes them."""

    def __init__(self, post: InternalPublisher) -> None:
        self._post = post

    def send(
        self,
        records: Records,
        index: int,
        count: int,
        exchange: str,
        death: Death,
        done: Done,
        settle: Settle | None = None,
    ) -> None:
        """Publish the dead letters of some neighbouring messages of a batch.

        Args:
            done, settle: see `InternalPublisher.begin`; letters dropped because they would cycle count as
                taken.
        """
        letters = _Letters(records, index, count, death)
        attributes = records.attributes & (PERSISTENT | BLIND_COPIES)
        self._post.begin(exchange, letters, attributes, exchange.encode(), done, settle)


class _Letters:
    # See `OutgoingMessages`. Neighbours often have equal properties and keys; their letter is made once.

    def __init__(self, records: Records, index: int, count: int, death: Death) -> None:
        self._records = records
        self._index = index
        self._count = count
        self._death = death
        self._letters: dict[tuple[bytes, bytes], DeadLetter] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, place: int) -> OutgoingMessage:
        records, at = self._records, self._index + place
        origin = (records.properties(at), records.routing_key(at))
        letter = self._letters.get(origin)
        if letter is None:
            own = own_deaths(records.attributes)
            letter = dead_letter(origin[0], own, records.exchange, origin[1], self._death)
            self._letters[origin] = letter
        return OutgoingMessage(
            letter.properties, letter.keys, records.body(at), letter.cycles_to, letter.own_deaths
        )
