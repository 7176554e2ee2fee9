"""JSON documents that people write: where one is malformed, in the words of an editor."""

import re
from typing import Any

import msgspec

from routelog.vhosts.errors import InvalidRequest

BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # what some editors write in front of UTF-8

JSON_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # of the decoder

_AT = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")


class MalformedJson(InvalidRequest):
    """A document is no JSON; the text says where."""


def decoded_json(document: bytes | bytearray) -> Any:
    """What a document says, whether or not it begins with a byte order mark.

    Raises:
        MalformedJson: it is no JSON.
    """
    document = document.removeprefix(BYTE_ORDER_MARK)
    try:
        return msgspec.json.decode(document)
    except RecursionError:
        raise MalformedJson("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise MalformedJson("it is not UTF-8") from None
    except msgspec.DecodeError as error:
        said = _AT.fullmatch(str(error))
        what, at = (said[1], int(said[2])) if said else ("it ends too early", len(document))
    before = bytes(document[:at])
    column = at - (before.rfind(b"\n") + 1)
    column -= sum(each & 0xC0 == 0x80 for each in before[at - column :])  # bytes inside a character
    line = before.count(b"\n") + 1
    raise MalformedJson(f"line {line}, column {column + 1}: {what}")
