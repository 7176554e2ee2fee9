"""A JSON document decoded in turns, against the decoder that takes all of it."""

import asyncio
import json
from collections.abc import Callable

import msgspec
import pytest
from support.loop_services import share_a_slow_loop

from routelog.management.calls.json_turns import (
    GROUP_BYTES,
    WHOLE_BYTES_MAX,
    decoded_in_turns,
    elements_in_turns,
    lines_in_turns,
)
from routelog.vhosts import MalformedJson

AWKWARD = {"name": 'a "]}, [{', "escaped": "\\", "nested": [[1, [2]], {"x": []}], "ü": None}


def document(**more: object) -> bytes:
    entries = [{**AWKWARD, "number": number} for number in range(2_000)]
    whole = {"first": 1, "entries": entries, "empty": [], "object": {"list": [1]}, **more}
    encoded = json.dumps(whole, ensure_ascii=False, indent=1).encode()
    assert len(encoded) > WHOLE_BYTES_MAX + GROUP_BYTES
    return encoded


async def test_a_large_document_says_what_it_says_to_the_decoder() -> None:
    encoded = document(numbers=[*range(50_000)], last="x" * 100)
    assert await decoded_in_turns(bytearray(encoded)) == msgspec.json.decode(encoded)


async def test_a_small_document_may_be_anything() -> None:
    for encoded in (b"[1, 2]", b'"x"', b"{}", b' {"a": [1]}'):
        assert await decoded_in_turns(encoded) == msgspec.json.decode(encoded)


async def test_others_have_their_turn_meanwhile() -> None:
    share_a_slow_loop()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await decoded_in_turns(document())
    counting.cancel()
    assert turns > len(document()) // GROUP_BYTES


@pytest.mark.parametrize(
    ("part", "broken"),
    [
        (b'"number": 1500', b'"number" 1500'),
        (b'"number": 1500', b'"number": "1500'),
        (b'"number": 1500\n', b'"number": 1500,\n'),
        (b"},\n  {", b"},,\n  {"),
        (b"}\n ],", b"},\n ],"),
        (b"}\n ],", b"}\n },"),
        (b"}\n ],", b"}\n ,"),
        (b'"first": 1,', b'"first": 1],'),
        (b'"first"', b"first"),
        ("ü".encode(), b"\xff"),
    ],
)
async def test_what_is_no_json_is_refused(part: bytes, broken: bytes) -> None:
    encoded = document()
    assert part in encoded
    with pytest.raises(MalformedJson):
        await decoded_in_turns(encoded.replace(part, broken, 1))


async def test_a_fault_of_a_large_document_is_found_by_its_line() -> None:
    encoded = document().replace(b'"number": 1500', b'"number" 1500', 1)
    line = encoded[: encoded.index(b'"number" 1500')].count(b"\n") + 1
    with pytest.raises(MalformedJson, match=f"^line {line}, column 13: expected ':'"):
        await decoded_in_turns(encoded)


async def test_a_large_document_may_begin_with_a_byte_order_mark() -> None:
    assert await decoded_in_turns(b"\xef\xbb\xbf" + document()) == json.loads(document())


@pytest.mark.parametrize("bad", [document()[:-1], document()[:-9_000], document() + b"]"])
async def test_what_is_cut_off_or_goes_on_is_refused(bad: bytes) -> None:
    with pytest.raises(MalformedJson):
        await decoded_in_turns(bad)


async def test_a_comma_behind_the_last_group_is_refused() -> None:
    entries = b"[" + b'"%b",' % (b"x" * GROUP_BYTES) * 8 + b"]"
    with pytest.raises(MalformedJson):
        await decoded_in_turns(b'{"entries": ' + entries + b"}")


async def test_a_large_document_that_is_no_object_is_refused() -> None:
    with pytest.raises(MalformedJson):
        await decoded_in_turns(b"[" + b"1," * WHOLE_BYTES_MAX + b"1]")


async def test_too_deep_a_nest_is_refused() -> None:
    deep = b'{"entries": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}"
    with pytest.raises(MalformedJson, match="nested"):
        await decoded_in_turns(deep)


@pytest.mark.parametrize("count", [0, 1, 3, 5_000])
async def test_elements_and_lines_are_what_they_are_to_the_decoder(count: int) -> None:
    elements = [[], 7, *({**AWKWARD, "number": number} for number in range(count))]
    encoded = json.dumps(elements, ensure_ascii=False, indent=1).encode()
    assert (len(encoded) > WHOLE_BYTES_MAX) == (count > 1_000)
    assert [each async for each in elements_in_turns(bytearray(encoded))] == elements
    lines = b"\r\n".join(json.dumps(each).encode() for each in elements)
    for document in (lines, lines + b"\n", b"\n \n" + lines.replace(b"\n", b"\n\n", 1)):
        assert [each async for each in lines_in_turns(document)] == elements
    assert [each async for each in elements_in_turns(b" [ ]")] == []
    assert [each async for each in lines_in_turns(b"")] == []


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (lambda whole: whole[:-1], "behind 0 elements"),
        (lambda whole: whole + b"]", "behind 0 elements"),
        (lambda whole: whole + whole, "behind 0 elements"),
        (lambda whole: whole[:-1] + b",]", "comma"),
        (lambda whole: b"[," + whole[1:], "behind 0 elements"),
        (lambda whole: whole.replace(b"1900", b"19x0"), r"behind 1\d\d\d elements"),
        (lambda whole: b'{"a": ' + whole + b"}", "expected an array"),
        (lambda whole: b'"' + b"x" * len(whole) + b'"', "no object"),
        (lambda whole: b"{}", "expected an array"),
        (lambda whole: b"[1", "line 1"),
    ],
)
async def test_what_is_no_array_is_refused(broken: Callable[[bytes], bytes], reason: str) -> None:
    whole = json.dumps([{**AWKWARD, "number": number} for number in range(2_000)]).encode()
    with pytest.raises(MalformedJson, match=reason):
        async for _ in elements_in_turns(broken(whole)):
            pass


async def test_a_line_that_is_no_json_is_refused_behind_the_others() -> None:
    lines = lines_in_turns(b"1\n\n2\n{\n3")
    assert [await anext(lines), await anext(lines)] == [1, 2]
    with pytest.raises(MalformedJson, match="behind 2 elements: line 1, column 2"):
        await anext(lines)
