"""Whole digests of nodes, compared: the command of operators does it as they arrive."""

from collections.abc import Iterable, Iterator, Mapping

from routelog.log_backend import Difference, Piece, differences, next_key


def digest_differences(digests: Mapping[str, Iterable[Piece]]) -> Iterator[Difference]:
    """Compare digests, by node; what is not read of them yet is read as it is compared."""
    rest = {node: iter(pieces) for node, pieces in digests.items()}
    heads = {node: next(pieces) for node, pieces in rest.items()}
    while heads:
        key = next_key(heads.values())
        group = {node: piece for node, piece in heads.items() if piece.key == key}
        yield from differences(group, digests)
        for node in group:
            following = next(rest[node], None)
            heads.pop(node)
            if following is not None:
                heads[node] = following
