"""A file in a form, as `curl -F file=@definitions.json` and RabbitMQ's page send it (RFC 7578)."""

from email.message import Message
from email.parser import BytesParser

FORM = "multipart/form-data"
FILE = "file"  # the field, as in RabbitMQ


class BadForm(Exception):
    """A form is malformed, or has no file."""


def is_form(content_type: str) -> bool:
    """Whether a body of this type is a form."""
    return content_type.partition(";")[0].strip().lower() == FORM


def file_in_form(content_type: str, body: bytes) -> bytes:
    """The content of the field `file`.

    Raises:
        BadForm: there is none.
    """
    kind = Message()
    kind["Content-Type"] = content_type
    boundary = kind.get_boundary()
    if not boundary:
        raise BadForm("the type of the form has no boundary")
    _, *parts = (b"\r\n" + body).split(b"\r\n--" + boundary.encode(errors="replace"))
    for part in parts:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        about = BytesParser().parsebytes(head, headersonly=True)
        if about.get_param("name", header="content-disposition") == FILE:
            return content
    raise BadForm(f"the form has no field '{FILE}'")
