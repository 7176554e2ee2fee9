"""Rows of figures of several brokers in turns: each row is measured so often, and the medians are printed."""

import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from routelog.benchmarks.brokers.broker_process import Broker, rabbitmq, routelog

BROKERS = {"routelog": routelog, "rabbitmq": rabbitmq}

Measure = Callable[[Broker], Sequence[float]]  # gives a figure for each column


def print_in_turns(
    rows: Mapping[str, Measure],
    columns: Mapping[str, str],
    folder: Path,
    names: Sequence[str],
    rounds: int,
) -> None:
    """Start the brokers, measure each row in turns, and print a table of Markdown.

    Args:
        columns: how the figures are written, by what is above them.
        folder: for the brokers' data.
        names: of `BROKERS`.
    """
    print(f"| Row | Broker | {' | '.join(columns)} |")
    print(f"|---|---|{'---:|' * len(columns)}")
    with _brokers(folder, names) as brokers:
        for row, measure in rows.items():
            found: dict[str, list[Sequence[float]]] = {name: [] for name in names}
            for number in range(rounds):
                for name in names[:: 1 if number % 2 == 0 else -1]:
                    found[name].append(measure(brokers[name]))
            for name, runs in found.items():
                medians = map(statistics.median, zip(*runs, strict=True))
                figures = map(format, medians, columns.values())
                print(f"| {row} | {name} | {' | '.join(figures)} |", flush=True)


@contextlib.contextmanager
def _brokers(folder: Path, names: Sequence[str]) -> Iterator[dict[str, Broker]]:
    with contextlib.ExitStack() as stack:
        yield {name: stack.enter_context(BROKERS[name](folder)) for name in names}
