"""The options that the commands of `routelog perf` share, and what they mean."""

from pathlib import Path
from typing import Annotated

import typer
from pamqp.common import FieldValue

from routelog.benchmarks.traffic.unexpected import BadRequest
from routelog.benchmarks.traffic.workload import ExchangeType

DEFAULT_URI = "amqp://guest:guest@127.0.0.1:5672/"

Uri = Annotated[str, typer.Option(help="The broker: amqp:// or amqps:// (TLS).")]
TlsCa = Annotated[
    str | None, typer.Option(metavar="FILE", help="Certificates to trust; else the system's.")
]
TlsInsecure = Annotated[bool, typer.Option("--tls-insecure", help="Trust any certificate.")]
Size = Annotated[int, typer.Option(min=1, help="Bytes of a message's body.")]
Producers = Annotated[int, typer.Option(min=1, help="Connections that publish.")]
Consumers = Annotated[int, typer.Option(min=0, help="Connections that consume.")]
Queues = Annotated[int, typer.Option(min=1, help="Queues.")]
Durable = Annotated[bool, typer.Option("--durable", help="Durable queues and persistent messages.")]
Confirms = Annotated[
    int, typer.Option(min=0, help="Unconfirmed messages of a producer at most; 0: no confirms.")
]
Prefetch = Annotated[
    int, typer.Option(min=0, help="Unacknowledged deliveries at most; 0: no limit.")
]
AckEvery = Annotated[
    int, typer.Option(min=0, help="Deliveries for each basic.ack; 0: automatic acknowledgement.")
]
Exchange = Annotated[str, typer.Option(metavar="TYPE", help=f"One of: {', '.join(ExchangeType)}.")]
Keys = Annotated[
    int, typer.Option(min=0, help="Different routing keys in use; 0: one for each binding.")
]
Bindings = Annotated[int, typer.Option(min=0, help="Bindings; 0: one for each queue.")]
FanOut = Annotated[
    int, typer.Option(min=0, help="Queues that each message reaches; 0: one, or all of a fanout.")
]
Headers = Annotated[int, typer.Option(min=0, max=64, help="Headers in each message.")]
Properties = Annotated[
    bool, typer.Option("--properties", help="Fill every property that is free to fill.")
]
Argument = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=VALUE", help="Argument of queue.declare; repeatable."),
]
Messages = Annotated[
    int, typer.Option(min=0, help="Publish so many, and end; 0: until the time is over.")
]
RunAhead = Annotated[
    int,
    typer.Option(min=0, help="Messages ahead of the consumers at most; 0: 200,000, or 64 MiB."),
]
Each = Annotated[
    bool,
    typer.Option("--each", help="Each publish and each acknowledgement is a write of its own."),
]
Pid = Annotated[
    int,
    typer.Option(
        min=0, help="The broker's process; 0: that which listens on the port, if it is here."
    ),
]
Seconds = Annotated[float, typer.Option(min=0.1, help="Measured window.")]
WarmUp = Annotated[float, typer.Option(min=0.0, help="Seconds before the window.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here, too.")
]
WithMachine = Annotated[
    bool, typer.Option("--machine/--no-machine", help="Measure the machine's own limits, too.")
]
Folder = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where the disk is measured; made if it is missing."),
]


def exchange_type(name: str) -> ExchangeType:
    """The type of this name.

    Raises:
        BadRequest: there is none.
    """
    try:
        return ExchangeType(name)
    except ValueError:
        known = ", ".join(ExchangeType)
        raise BadRequest(f"unknown exchange type {name!r}; known: {known}") from None


def queue_arguments(given: list[str] | None) -> tuple[tuple[str, FieldValue], ...]:
    """Arguments as `KEY=VALUE`: whole numbers and true or false are what they look like, all else is text.

    Raises:
        BadRequest: one has no key, or no value.
    """
    arguments = []
    for text in given or []:
        key, separator, value = text.partition("=")
        if not (key and separator):
            raise BadRequest(f"an argument is KEY=VALUE, not {text!r}")
        arguments.append((key, _value(value)))
    return tuple(arguments)


def _value(text: str) -> FieldValue:
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        return text
