"""Field tables from strangers: how many fields they may have, and how malformed ones are answered."""

from routelog.amqp_front.wire.errors import FRAME_ERROR, SYNTAX_ERROR, HardError
from routelog.log_backend import MalformedProperties, UnknownFieldType, decode_table

FIELDS_MAX = 8_192  # of one table with everything in it


def read_table(data: bytes, at: int, end: int) -> dict[str, object]:
    """The table whose fields lie in [at, end).

    Raises:
        HardError: 501 for lengths, depth or names that cannot be; 502 for an unknown type.
    """
    try:
        return decode_table(data, at, end, values_max=FIELDS_MAX)
    except MalformedProperties as error:
        raise refusal(error) from None


def refusal(error: MalformedProperties) -> HardError:
    """What a peer is told of a malformed property list or table."""
    code = SYNTAX_ERROR if isinstance(error, UnknownFieldType) else FRAME_ERROR
    return HardError(code, str(error))
