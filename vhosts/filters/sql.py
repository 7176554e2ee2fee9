"""Reads the text of an `x-filter`: a condition of SQL.

Importing this takes some 0.2 s: see `sql_condition`.

Source: RabbitMQ's SQL filters, https://www.rabbitmq.com/docs/stream-filtering, which are those of AMQP Filter
Expressions 1.0 without functions.
"""

from collections.abc import Iterator
from typing import Any, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from routelog.log_backend import FIRST_FLAG, PRIORITY, PROPERTY_NAMES
from routelog.vhosts.errors import InvalidFilter
from routelog.vhosts.filters import expression
from routelog.vhosts.filters.expression import Expression, constant, message_property
from routelog.vhosts.filters.like_pattern import LikePattern

# As in RabbitMQ.
CHARACTERS_MAX = 4_096
TOKENS_MAX = 200

_GRAMMAR = r"""
?start: or
?or: and | or "OR"i and -> either
?and: not | and "AND"i not -> both
?not: comparison | "NOT"i not -> negated
?comparison: sum
    | sum COMPARISON sum -> compared
    | sum "LIKE"i TEXT ["ESCAPE"i TEXT] -> like
    | sum "NOT"i "LIKE"i TEXT ["ESCAPE"i TEXT] -> not_like
    | sum "IN"i "(" _sums ")" -> among
    | sum "NOT"i "IN"i "(" _sums ")" -> not_among
    | sum "IS"i "NULL"i -> is_null
    | sum "IS"i "NOT"i "NULL"i -> is_not_null
_sums: sum ("," sum)*
?sum: product | sum (PLUS | MINUS) product -> calculated
?product: signed | product (TIMES | DIVIDED | MODULO) signed -> calculated
?signed: operand | PLUS operand -> with_sign | MINUS operand -> with_sign
?operand: "(" or ")"
    | INTEGER -> integer
    | FLOAT -> float
    | TEXT -> text
    | OCTETS -> octets
    | "TRUE"i -> true
    | "FALSE"i -> false
    | NAME -> named
    | DELIMITED_NAME -> delimited

COMPARISON: "=" | "<>" | "!=" | "<=" | ">=" | "<" | ">"
PLUS: "+"
MINUS: "-"
TIMES: "*"
DIVIDED: "/"
MODULO: "%"
OCTETS.2: /0x([0-9A-F]{2})+/
FLOAT.2: /[0-9]+\.[0-9]+(E[+-]?[0-9]+)?/
INTEGER: /[0-9]+/
TEXT: /'([^']|'')*'|"([^"]|"")*"/
NAME: /[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?/i
DELIMITED_NAME: /\[([^\[\]]|\[\[|\]\])*\]/
%ignore /[ \t\f\r\n]+/
"""
_HEADERS = ("application_properties", "a")
_FIELDS = {"routing_key": expression.ROUTING_KEY, "exchange": expression.EXCHANGE}
_FIELDS |= {
    f"{section}.{name}": message_property(FIRST_FLAG >> at)
    for at, name in enumerate(PROPERTY_NAMES)
    if name != "headers"
    for section in ("properties", "p")
}
_FIELDS |= {f"{section}.priority": message_property(PRIORITY) for section in ("header", "h")}


@v_args(inline=True)
class _Expressions(Transformer[Token, Expression]):
    """Makes an expression of each rule as soon as it is read."""

    both = staticmethod(expression.both)
    either = staticmethod(expression.either)
    negated = staticmethod(expression.negated)
    is_null = staticmethod(expression.is_null)
    calculated = staticmethod(expression.calculated)

    def compared(self, left: Expression, sign: str, right: Expression) -> Expression:
        return expression.compared(sign, left, right)

    def with_sign(self, sign: str, operand: Expression) -> Expression:
        return expression.calculated(constant(0), sign, operand)

    def like(self, operand: Expression, pattern: Token, escape: Token | None) -> Expression:
        character = None if escape is None else _unquoted(escape)
        if escape is not None and len(_unquoted(escape)) != 1:
            raise InvalidFilter(f"ESCAPE is not one character at column {_column(escape)}")
        try:
            return expression.like(operand, LikePattern(_unquoted(pattern), character))
        except ValueError as error:
            raise InvalidFilter(f"{error} at column {_column(pattern)}") from None

    def among(self, operand: Expression, *values: Expression) -> Expression:
        return expression.among(operand, values)

    def not_like(self, *parts: Any) -> Expression:
        return expression.negated(self.like(*parts))

    def not_among(self, *parts: Expression) -> Expression:
        return expression.negated(expression.among(parts[0], parts[1:]))

    def is_not_null(self, operand: Expression) -> Expression:
        return expression.negated(expression.is_null(operand))

    def integer(self, token: Token) -> Expression:
        return constant(int(token))

    def float(self, token: Token) -> Expression:
        return constant(float(token))

    def text(self, token: Token) -> Expression:
        return constant(_unquoted(token).encode())

    def octets(self, token: Token) -> Expression:
        return constant(bytes.fromhex(token[2:]))

    def true(self) -> Expression:
        return constant(True)

    def false(self) -> Expression:
        return constant(False)

    def delimited(self, token: Token) -> Expression:
        name = token[1:-1].replace("[[", "[").replace("]]", "]")
        return expression.header(name.encode())

    def named(self, token: Token) -> Expression:
        if token in _FIELDS:
            return _FIELDS[token]
        section, dot, name = token.rpartition(".")
        if dot and section not in _HEADERS:
            raise InvalidFilter(f"there is no '{token}' at column {_column(token)}")
        return expression.header(name.encode())


def _unquoted(token: Token) -> str:
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)


def _column(token: Token) -> int:
    return (token.start_pos or 0) + 1


class _TokenLimit:
    """Lets at most TOKENS_MAX tokens through from the lexer to the parser."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        """See `lark.lark.PostLex`."""
        for count, token in enumerate(stream):
            if count >= TOKENS_MAX:
                raise InvalidFilter(f"it has more than {TOKENS_MAX} words and signs")
            yield token


_PARSER = Lark(
    _GRAMMAR, parser="lalr", lexer="basic", postlex=_TokenLimit(), transformer=_Expressions()
)


def parsed_sql(text: str) -> Expression:
    """The expression of a text.

    Raises:
        InvalidFilter: it is none, or too long.
    """
    if len(text) > CHARACTERS_MAX:
        raise InvalidFilter(f"it is longer than {CHARACTERS_MAX} characters")
    try:
        return cast(Expression, _PARSER.parse(text))
    except UnexpectedCharacters as error:
        at = error.pos_in_stream or 0
        raise InvalidFilter(f"unexpected '{text[at]}' at column {at + 1}") from None
    except UnexpectedToken as error:
        if error.token.type == "$END":
            raise InvalidFilter("it ends too early") from None
        raise InvalidFilter(
            f"unexpected '{error.token}' at column {_column(error.token)}"
        ) from None
