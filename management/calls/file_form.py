"""The fields of a form with a file, which browsers and curl send as `multipart/form-data`.

Source: RFC 7578; RFC 2046, section 5.1.1.
"""

from email.message import Message
from email.parser import BytesParser

FORM = "multipart/form-data"

# A form is taken apart in one turn of the event loop. A head takes up to 1 ms; forms here have up to 4 fields.
FIELDS_MAX = 8
HEAD_BYTES_MAX = 1_024  # with the names of the field and of its file

_END = b"--"


class BadForm(Exception):
    """A form is malformed, or has no file."""


def fields_of_form(content_type: str, body: bytes | bytearray) -> list[tuple[str, bytes]]:
    """Name and content of each field, in their order; a field without a name has an empty one.

    Raises:
        BadForm: it is no such form, or one with more fields than FIELDS_MAX.
    """
    delimiter = b"\r\n--" + _boundary(content_type)
    _, *parts = (b"\r\n" + body).split(delimiter, FIELDS_MAX + 1)
    fields: list[tuple[str, bytes]] = []
    for part in parts:
        if part.startswith(_END):
            break
        if len(fields) == FIELDS_MAX:
            raise BadForm(f"the form has more than {FIELDS_MAX} fields")
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        fields.append((_name(head), content))
    return fields


def _boundary(content_type: str) -> bytes:
    kind = Message()
    kind["Content-Type"] = content_type
    try:
        boundary = kind.get_boundary()
    except ValueError:  # of an encoding that is none
        boundary = None
    if not boundary:
        raise BadForm("the type of the form has no boundary")
    return boundary.encode(errors="replace")


def _name(head: bytes) -> str:
    if len(head) > HEAD_BYTES_MAX:
        raise BadForm(f"the head of a field is larger than {HEAD_BYTES_MAX} bytes")
    about = BytesParser().parsebytes(head, headersonly=True)
    name = about.get_param("name", header="content-disposition")
    return name if isinstance(name, str) else ""
