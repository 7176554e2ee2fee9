"""The spans of traced messages, where the configuration asks for them."""

from importlib.metadata import version
from typing import TYPE_CHECKING

from routelog.broker import BrokerConfig, StartError
from routelog.log_backend import Clock

if TYPE_CHECKING:  # else only where it is asked for: its libraries are an extra
    from routelog.amqp_front.publishing.spans import Spans


def open_spans(config: BrokerConfig, node: str, clock: Clock) -> "Spans | None":
    """Where spans go; None: none are made.

    Raises:
        StartError: the libraries for them are not installed.
    """
    if not config.otel_endpoint:
        return None
    try:
        from routelog.amqp_front.publishing.spans import Spans
    except ImportError:
        raise StartError("otel_endpoint: needs the extra routelog-broker[otel]") from None
    return Spans(config.otel_endpoint, node, version("routelog-broker"), clock)
