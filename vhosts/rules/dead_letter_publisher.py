"""Publishing of dead letters to the dead letter exchange of their queue."""

from collections.abc import Sequence

from routelog.log_backend import BLIND_COPIES, PERSISTENT, Records
from routelog.vhosts.publishing.internal_publish import OutgoingMessage, Settle
from routelog.vhosts.publishing.internal_publisher import Done, InternalPublisher
from routelog.vhosts.rules.death import DeadLetter, Death, dead_letter, own_deaths

DeadMessage = tuple[Records, int]  # and its index there


class DeadLetterPublisher:
    """Makes dead letters of messages and publishes them."""

    def __init__(self, post: InternalPublisher) -> None:
        self._post = post

    def send(
        self,
        dead: Sequence[DeadMessage],
        exchange: str,
        death: Death,
        done: Done,
        settle: Settle | None = None,
    ) -> None:
        """Publish the dead letters of some messages.

        Args:
            dead: of batches with the same attributes and exchange.
            done, settle: see `InternalPublisher.begin`; letters dropped because they would cycle count as
                taken.
        """
        attributes = dead[0][0].attributes & (PERSISTENT | BLIND_COPIES)
        letters = _Letters(dead, death)
        self._post.begin(exchange, letters, attributes, exchange.encode(), done, settle)


class _Letters:
    # See `OutgoingMessages`. Neighbours often have equal properties and keys; their letter is made once.

    def __init__(self, dead: Sequence[DeadMessage], death: Death) -> None:
        self._dead = dead
        self._death = death
        self._letters: dict[tuple[bytes, bytes], DeadLetter] = {}

    def __len__(self) -> int:
        return len(self._dead)

    def __getitem__(self, place: int) -> OutgoingMessage:
        records, at = self._dead[place]
        origin = (records.properties(at), records.routing_key(at))
        letter = self._letters.get(origin)
        if letter is None:
            own = own_deaths(records.attributes)
            letter = dead_letter(origin[0], own, records.exchange, origin[1], self._death)
            self._letters[origin] = letter
        return OutgoingMessage(
            letter.properties, letter.keys, records.body(at), letter.cycles_to, letter.own_deaths
        )
