"""A large JSON document, decoded in turns of the event loop: a decoder that is handed all of it holds the loop.

Whatever stands in an array of the outermost object is cut out between commas and decoded some at a time:

    {"name": "x", "queues": [ {...}, {...}, | {...}, {...} ], "bindings": [ ... ]}
                              a group of elements
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.vhosts import BYTE_ORDER_MARK, JSON_FAULTS, MalformedJson, decoded_json

WHOLE_BYTES_MAX = 65_536  # decoded at once: 0.3 ms
GROUP_BYTES = 16_384  # of elements, decoded at once

_OBJECT = re.compile(rb"\s*\{")
# To the next bracket or comma that is in no string.
_MARK = re.compile(rb'[^"\[\]{},]*+(?:"(?:[^"\\]|\\.)*+"[^"\[\]{},]*+)*+([\[\]{},])', re.DOTALL)


async def decoded_in_turns(document: bytes | bytearray) -> Any:
    """What a document says, as `decoded_json` does.

    Raises:
        MalformedJson: it is no JSON, or large and no object.
    """
    if len(document) <= WHOLE_BYTES_MAX:
        return decoded_json(document)
    document = document.removeprefix(BYTE_ORDER_MARK)
    if not _OBJECT.match(document):
        raise MalformedJson("a large document that is no object")
    try:
        return await _decoded_in_groups(document)
    except JSON_FAULTS:
        # Once more as a whole, to say where it is wrong: this holds the loop for some 5 ms a MB.
        decoded_json(document)
        raise MalformedJson("it is no JSON") from None


async def _decoded_in_groups(document: bytes | bytearray) -> Any:
    cutter = _Cutter(document)
    async for _ in in_turns(cutter.marks(), Lane.OPERATORS):
        pass
    outermost = msgspec.json.decode(b"".join(cutter.rest))
    for name, value in outermost.items():
        if isinstance(value, list):
            outermost[name] = elements = []
            groups = cutter.arrays[value[0]]
            async for begin, end in in_turns(groups, Lane.OPERATORS):
                group = msgspec.json.decode(b"[" + document[begin:end] + b"]")
                if not group and len(groups) > 1:
                    raise msgspec.DecodeError("a comma too many")
                elements += group
    return outermost


class _Cutter:
    # `rest` is the document with the number of an array in its place; `arrays` has their groups of elements.
    def __init__(self, document: bytes | bytearray) -> None:
        self.rest: list[bytes | bytearray] = []
        self.arrays: list[list[tuple[int, int]]] = []
        self._document = document

    def marks(self) -> Iterator[None]:
        document = self._document
        depth = at = copied = begin = 0
        in_array = False
        while match := _MARK.match(document, at):
            at = match.end()
            mark = document[at - 1]
            if mark in b"[{":
                depth += 1
                if depth == 2 and mark == ord("["):
                    in_array, begin = True, at
                    self.rest += document[copied:at], b"%d" % len(self.arrays)
                    self.arrays.append([])
            elif mark in b"]}":
                if depth == 2 and in_array:
                    self.arrays[-1].append((begin, at - 1))
                    in_array, copied = False, at - 1
                depth -= 1
            elif depth == 2 and in_array and at - begin > GROUP_BYTES:
                self.arrays[-1].append((begin, at - 1))
                begin = at
            yield
        self.rest.append(document[copied:])
