"""The way of dead letters: through the exchange that their queue names, to queues of the vhost."""

from collections.abc import Sequence

from log_backend import BLIND_COPIES, PERSISTENT, Records
from vhosts.death import DeadLetter, Death, dead_letter
from vhosts.post import Done, Post
from vhosts.posting import Outgoing


class LetterPost:
    """Makes dead letters of messages and publishes them."""

    def __init__(self, post: Post) -> None:
        self._post = post

    def send(
        self, records: Records, index: int, count: int, exchange: str, death: Death, done: Done
    ) -> None:
        """Publish the dead letters of some neighbouring messages of a batch.

        Args:
            done: see `Post.begin`; those that would go round for ever count as taken.
        """
        letters = [
            Outgoing(letter.properties, letter.keys, records.body(index + place), letter.cycles_to)
            for place, letter in enumerate(_letters(records, index, count, death))
        ]
        attributes = records.attributes & (PERSISTENT | BLIND_COPIES)
        self._post.begin(exchange, letters, attributes, exchange.encode(), done)


def _letters(records: Records, index: int, count: int, death: Death) -> Sequence[DeadLetter]:
    # Neighbours often have the same properties and key, and then the same letter.
    known: dict[tuple[bytes, bytes], DeadLetter] = {}
    letters: list[DeadLetter] = []
    for place in range(index, index + count):
        origin = (records.properties(place), records.routing_key(place))
        letter = known.get(origin)
        if letter is None:
            letter = known[origin] = dead_letter(origin[0], records.exchange, origin[1], death)
        letters.append(letter)
    return letters
