"""What a handler takes and what it answers, said above it: the OpenAPI document is made from this.

A handler sees no other parameters of a query than those that stand here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import unwrap
from typing import Any, TypeVar

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a query.

    Attributes:
        type: as msgspec knows it; of text in the query.
    """

    meaning: str
    type: Any = str
    is_needed: bool = False


Query = dict[str, Parameter]
NO_QUERY: Query = {}


@dataclass(frozen=True, slots=True)
class Operation:
    """What a handler takes and answers.

    Attributes:
        answer: type of the JSON; bytes: it is none; None: there is no content.
        is_list: the answer is a list of such.
        has_pages: a page of the list can be asked for; where RabbitMQ has none, tools read a list.
        body: type of the JSON that it takes; None: it takes none.
        takes_form: the body may be a form with a file of such JSON.
        takes_lines: the body may be lines, each an element of the list that it takes.
        statuses: when it is done; the answer comes with the first.
        failure: type of what comes with 503 in place of an error.
    """

    answer: Any = None
    is_list: bool = False
    body: Any = None
    query: Query = field(default_factory=dict)
    statuses: tuple[int, ...] = (200,)
    failure: Any = None
    has_pages: bool = False
    takes_form: bool = False
    takes_lines: bool = False


UNSAID = Operation(Any)  # of a handler above which nothing stands: it takes any query

_OPERATIONS: dict[Callable[..., Any], Operation] = {}


def operation_of(handler: Callable[..., Any]) -> Operation:
    """What was said above a handler."""
    return _OPERATIONS.get(unwrap(handler), UNSAID)


def _said(operation: Operation) -> Callable[[_Handler], _Handler]:
    def note(handler: _Handler) -> _Handler:
        _OPERATIONS[handler] = operation
        return handler

    return note


def lists(
    row: Any, query: Query = NO_QUERY, *, has_pages: bool = False
) -> Callable[[_Handler], _Handler]:
    """The handler answers a list of rows of a type."""
    return _said(Operation(row, is_list=True, query=query, has_pages=has_pages))


def answers(
    value: Any,
    *,
    body: Any = None,
    query: Query = NO_QUERY,
    statuses: tuple[int, ...] = (200,),
    failure: Any = None,
    takes_form: bool = False,
    takes_lines: bool = False,
) -> Callable[[_Handler], _Handler]:
    """The handler answers a value of a type."""
    forms = {"takes_form": takes_form, "takes_lines": takes_lines}
    return _said(Operation(value, False, body, query, statuses, failure, **forms))


def changes(
    body: Any = None, *, query: Query = NO_QUERY, statuses: tuple[int, ...] = (204,)
) -> Callable[[_Handler], _Handler]:
    """The handler changes something, and answers nothing."""
    return _said(Operation(None, False, body, query, statuses))


def puts(body: Any) -> Callable[[_Handler], _Handler]:
    """The handler makes something (201), or changes what is there (204)."""
    return changes(body, statuses=(201, 204))
