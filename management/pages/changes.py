"""Changes that the page offers: each is a form, one call of the API, its curl and its command."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import msgspec

from routelog.management.calls.failures import bad_request, not_found
from routelog.management.calls.path_template import filled, part_names
from routelog.management.pages.visit import Moved, Parts, Shows, Visit, value_of

# A path of this site. Browsers take // and /\ for the begin of another one, and leave out white space.
_OWN_PATH = re.compile(r"/(?![/\\])[\x21-\x7e]*")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Attributes:
        name: a part of the API's path, or the place in its body: `a.b` is b in the object a; `*` is all of it.
        kind: what is sent: a text, a whole number, a truth value or JSON.
        choices: the texts that it may have; none: any.
        labels: what the choices are called; none: as they are.
        value: what stands in it first.
        is_needed: it may not be left empty.
        sends_empty: an empty text is sent, too, rather than nothing.
    """

    name: str
    label: str
    kind: Literal["text", "lines", "number", "flag", "json", "password", "vhost"] = "text"
    choices: tuple[str, ...] = ()
    value: str = ""
    hint: str = ""
    is_needed: bool = False
    sends_empty: bool = False
    labels: tuple[str, ...] = ()

    def read(self, text: str) -> Any:
        """What a text in it means.

        Raises:
            Refused: nothing.
        """
        if self.kind == "flag":
            return text == "on"
        try:
            if self.kind == "number":
                return int(text)
            return msgspec.json.decode(text) if self.kind == "json" else text
        except (ValueError, msgspec.DecodeError, RecursionError) as error:
            raise bad_request(f"{self.label}: {error}") from None


WHOLE_BODY = "*"  # see `Field`
VHOST = Field("vhost", "Virtual host", "vhost", is_needed=True)
NAME = Field("name", "Name", is_needed=True)
PATTERN = "a regular expression"  # the hint of a field


@dataclass(frozen=True)
class Change:
    """A change by one call of the API.

    Attributes:
        path: as the API's table of routes has it; its parts are fields, or values that the page has.
        title: on the button.
        done: what the next page says; fields stand in braces.
        tells: the same, from the value of the answer.
        confirmed_by: the name of the field whose value has to be typed for it; empty: none.
        then: the page that is shown then; empty: the one with the form.
        command: of `routelog`, with fields in braces; empty: there is none.
    """

    name: str
    title: str
    method: str
    path: str
    fields: tuple[Field, ...] = ()
    done: str = ""
    tells: Callable[[Any], str] | None = None
    confirmed_by: str = ""
    then: str = ""
    command: str = ""

    @property
    def needs_vhost(self) -> bool:
        """Whether a vhost is chosen in the form."""
        return any(field.kind == "vhost" for field in self.fields)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The names of the path's parts."""
        return part_names(self.path)

    def body(self, said: Mapping[str, str]) -> Any:
        """The body of the call, from the texts in the fields; None: it has none.

        Raises:
            Refused: a field says nothing, or is empty and needed.
        """
        if self.method == "DELETE":
            return None
        body: dict[str, Any] = {}
        for field in self.fields:
            text = said.get(field.name, "")
            if not text and field.is_needed:
                raise bad_request(f"{field.label}: it is empty")
            if field.name in self.parts:
                continue
            if not text and not field.sends_empty and field.kind != "flag":
                continue
            _put(body, field.name.split("."), field.read(text))
        return body

    def curl(self, origin: str, user: str, known: Parts) -> str:
        """The call by curl.

        Args:
            known: what the page has of the fields.
        """
        said = self._said(known)
        url = f"{origin}/api{filled(self.path, said)}"
        words = ["curl", "-u", user, "-X", self.method, url]
        body = self.body(said)
        if body is not None:
            words += ["-H", "Content-Type: application/json"]
            words += ["-d", msgspec.json.encode(body).decode()]
        return shlex.join(words)

    def command_line(self, known: Parts) -> str:
        """The same by a command; empty: there is none."""
        said = self._said(known)
        words = [word.format_map(said) for word in self.command.split()]
        return shlex.join(["routelog", *words]) if words else ""

    def _said(self, known: Parts) -> dict[str, str]:
        # What is needed and not known yet is named in capitals, as in the help of commands.
        said = dict(known)
        for field in self.fields:
            is_needed = field.is_needed or field.name in self.parts
            unknown = field.name.upper() if is_needed else ""
            said.setdefault(field.name, field.value or unknown)
        return said


def _put(body: dict[str, Any], place: list[str], value: Any) -> None:
    if place == [WHOLE_BODY]:
        if not isinstance(value, dict):
            raise bad_request("expected an object of JSON")
        body.update(value)
        return
    for name in place[:-1]:
        body = body.setdefault(name, {})
    known = body.get(place[-1])
    both = isinstance(known, dict) and isinstance(value, dict)
    body[place[-1]] = {**known, **value} if both else value  # type: ignore[dict-item]


async def make_change(visit: Visit, changes: Mapping[str, Change]) -> Shows:
    """Carry out what a form asks for, and go on to the page that says so."""
    change = changes.get(visit.parts["change"])
    if change is None:
        raise not_found("change", visit.parts["change"])
    if change.confirmed_by:
        check_confirmed(visit, visit.field(change.confirmed_by))
    said = {name: values[0] for name, values in visit.form.items()}
    parts = {name: visit.field(name) for name in change.parts}
    answer = await visit.ask(change.method, change.path, parts, body=change.body(said))
    value = await value_of(answer)
    tells = change.tells(value) if change.tells is not None else change.done.format_map(said)
    visit.session.notice = tells
    return Moved(filled(change.then, said) or own_path(visit.field("back")))


def check_confirmed(visit: Visit, wanted: str) -> None:
    """Refuse a form in which the user has not typed the text that confirms it.

    Raises:
        Refused: 400.
    """
    if visit.field("confirm") != wanted:
        raise bad_request(f"nothing is changed: '{wanted}' has to be typed to confirm this")


# Reasons of the API that are names for programs, or say nothing of what to do.
_IN_WORDS = {
    "Object missing required field `definition`": "Say at least one setting: it is empty.",
    "vhost_or_user_not_found": "There is no such user, or no such virtual host.",
    "User not authorised to access virtual host": "You have no permission in this virtual host.",
}


def in_words(reason: str) -> str:
    """The reason of a refusal as a sentence for people."""
    reason = _IN_WORDS.get(reason, reason)
    end = "" if reason.endswith((".", "!", "?")) else "."
    return reason[:1].upper() + reason[1:] + end


def counted(count: int, noun: str) -> str:
    """How many there are of something: what has to be typed before so many are changed."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def own_path(text: str) -> str:
    """The path of one of our pages that a form or link says; the first page, when it says another thing."""
    return text if _OWN_PATH.fullmatch(text) else "/"
