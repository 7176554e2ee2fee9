"""Forms with a file."""

import pytest

from routelog.management.calls.file_form import (
    FIELDS_MAX,
    HEAD_BYTES_MAX,
    BadForm,
    fields_of_form,
)

KIND = "multipart/form-data; boundary=b-b"
FIELD = b'--b-b\r\nContent-Disposition: form-data; name="f"\r\n\r\nx\r\n'


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'Content-Disposition: form-data; name="f"', "f"),
        (b"content-disposition: form-data; name=f", "f"),
        (b'Content-Type: text/plain\r\nContent-Disposition: form-data; name="f"', "f"),
        ('Content-Disposition: form-data; name="f"; filename="é.json"'.encode(), "f"),
        (b"Content-Disposition: form-data", ""),
        (b"Content-Disposition: form-data; name*=undefined''f", ""),
        (b"Content-Disposition", ""),
        (b"Content-Type: text/plain", ""),
    ],
)
def test_a_field_has_the_name_of_its_head_and_its_bytes_as_they_are(head: bytes, name: str) -> None:
    content = b"\r\n--b\r\n\r\n\xff"
    body = b"--b-b\r\n" + head + b"\r\n\r\n" + content + b"\r\n--b-b--\r\n" + FIELD
    assert fields_of_form(KIND, body) == [(name, content)]


def test_what_stands_before_the_first_field_and_a_missing_end_do_not_matter() -> None:
    assert fields_of_form(KIND, b"preamble\r\n" + FIELD) == [("f", b"x\r\n")]
    assert fields_of_form(KIND, b"") == fields_of_form(KIND, b"--b-b--") == []


def test_a_form_has_only_so_many_fields_with_heads_of_a_size() -> None:
    assert len(fields_of_form(KIND, FIELD * FIELDS_MAX + b"--b-b--")) == FIELDS_MAX
    with pytest.raises(BadForm, match="more than 8 fields"):
        fields_of_form(KIND, FIELD * (FIELDS_MAX + 1))
    with pytest.raises(BadForm, match="more than 8 fields"):
        fields_of_form(KIND, b"--b-b\r\n\r\n\r\n" * 10_000)
    with pytest.raises(BadForm, match="larger than 1024 bytes"):
        fields_of_form(KIND, b"--b-b\r\n" + b"x" * (HEAD_BYTES_MAX + 1) + b"\r\n\r\n")


@pytest.mark.parametrize(
    "parameters",
    [
        "",
        "; boundary=",
        "; boundary*=undefined''b",
        "; boundary*=a\0b''b",
        f"; boundary*{'0' * 5_000}=b",
    ],
)
def test_a_form_needs_a_boundary(parameters: str) -> None:
    with pytest.raises(BadForm, match="no boundary"):
        fields_of_form(f"multipart/form-data{parameters}", FIELD)
