"""A large JSON document, decoded in turns of the event loop: a decoder that is handed all of it holds the loop.

Whatever stands in an array of the outermost object, or in the outermost array, is cut out between commas and
decoded some at a time:

    {"name": "x", "queues": [ {...}, {...}, | {...}, {...} ], "bindings": [ ... ]}
                              a group of elements
"""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from routelog.log_backend import Lane, in_turns
from routelog.vhosts import BYTE_ORDER_MARK, JSON_FAULTS, MalformedJson, decoded_json

WHOLE_BYTES_MAX = 65_536  # decoded at once: 0.3 ms
GROUP_BYTES = 16_384  # of elements, decoded at once

_OBJECT = re.compile(rb"\s*\{")
_ARRAY = re.compile(rb"\s*\[")
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


async def elements_in_turns(document: bytes | bytearray) -> AsyncIterator[Any]:
    """The elements of an array; of a large one, some are decoded at a time, so that others cost no memory.

    Raises:
        MalformedJson: it is no JSON, or no array.
    """
    document = document.removeprefix(BYTE_ORDER_MARK)
    if len(document) <= WHOLE_BYTES_MAX or not _ARRAY.match(document):
        if not isinstance(whole := await decoded_in_turns(document), list):
            raise MalformedJson("expected an array")
        async for element in in_turns(whole, Lane.OPERATORS):
            yield element
        return
    cutter = _Cutter(document, 1)
    async for _ in in_turns(cutter.marks(), Lane.OPERATORS):
        pass
    count = 0
    try:
        msgspec.json.decode(b"".join(cutter.rest))  # around the array
        async for group in in_turns(_groups(document, cutter.arrays[0]), Lane.OPERATORS):
            for element in group:
                yield element
            count += len(group)
    except JSON_FAULTS as error:
        raise MalformedJson(f"behind {count} elements: {error}") from None


async def lines_in_turns(document: bytes | bytearray) -> AsyncIterator[Any]:
    """What the lines of a document say, one after the other; those that are blank say nothing.

    Raises:
        MalformedJson: one of them is no JSON.
    """
    count = 0
    async for line in in_turns(_lines(document), Lane.OPERATORS):
        if not line or line.isspace():
            continue
        try:
            element = await decoded_in_turns(line)
        except MalformedJson as error:
            raise MalformedJson(f"behind {count} elements: {error}") from None
        yield element
        count += 1


def _lines(document: bytes | bytearray) -> Iterator[bytes | bytearray]:
    # `split` would make all of them at once: 16 MiB can be 16 million.
    at = 0
    while at < len(document):
        end = document.find(b"\n", at)
        end = len(document) if end < 0 else end
        yield document[at:end]
        at = end + 1


async def _decoded_in_groups(document: bytes | bytearray) -> Any:
    cutter = _Cutter(document, 2)
    async for _ in in_turns(cutter.marks(), Lane.OPERATORS):
        pass
    outermost = msgspec.json.decode(b"".join(cutter.rest))
    for name, value in outermost.items():
        if isinstance(value, list):
            outermost[name] = elements = []
            groups = _groups(document, cutter.arrays[value[0]])
            async for group in in_turns(groups, Lane.OPERATORS):
                elements += group
    return outermost


def _groups(document: bytes | bytearray, places: list[tuple[int, int]]) -> Iterator[list[Any]]:
    for begin, end in places:
        group = msgspec.json.decode(b"[" + document[begin:end] + b"]")
        if not group and len(places) > 1:
            raise msgspec.DecodeError("a comma too many")
        yield group


class _Cutter:
    # `rest` is the document with the number of an array in its place; `arrays` has their groups of elements.
    # Those arrays are cut that stand at a depth of brackets: 1 is the outermost one.
    def __init__(self, document: bytes | bytearray, depth: int) -> None:
        self._depth = depth
        self.rest: list[bytes | bytearray] = []
        self.arrays: list[list[tuple[int, int]]] = []
        self._document = document

    def marks(self) -> Iterator[None]:
        document, cut_depth = self._document, self._depth
        depth = at = copied = begin = 0
        in_array = False
        while match := _MARK.match(document, at):
            at = match.end()
            mark = document[at - 1]
            if mark in b"[{":
                depth += 1
                if depth == cut_depth and mark == ord("["):
                    in_array, begin = True, at
                    self.rest += document[copied:at], b"%d" % len(self.arrays)
                    self.arrays.append([])
            elif mark in b"]}":
                if depth == cut_depth and in_array:
                    self.arrays[-1].append((begin, at - 1))
                    in_array, copied = False, at - 1
                depth -= 1
            elif depth == cut_depth and in_array and at - begin > GROUP_BYTES:
                self.arrays[-1].append((begin, at - 1))
                begin = at
            yield
        self.rest.append(document[copied:])
