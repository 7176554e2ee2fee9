"""Numbers as people read them: counts, rates, sizes and spans of time, short and with their unit."""

from datetime import UTC, datetime
from itertools import pairwise

NONE = "–"
EXACT_MAX = 1_000_000  # a larger count is short: nobody reads its last digits
_SECONDS_OF = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


def as_number(number: float | None) -> str:
    """A number in full, its thousands apart; a dash for none."""
    return NONE if number is None else f"{number:,}"


def as_count(number: float | None) -> str:
    """A count, in full up to a million: 55,191, 1.24 M."""
    if number is None or number < EXACT_MAX:
        return NONE if number is None else f"{number:,.0f}"
    return _scaled(number, ("", "k", "M", "G", "T"))


def as_rate(per_second: float | None) -> str:
    """How often in a second: 0, 0.4/s, 105/s, 41.8 k/s."""
    if not per_second:
        return NONE if per_second is None else "0"
    if per_second < 0.1:
        return "< 0.1/s"
    if per_second < 10:
        return f"{per_second:.1f}".removesuffix(".0") + "/s"
    return _scaled(per_second, ("", "k", "M", "G", "T")) + "/s"


def as_octets(size: float | None) -> str:
    """A size: 412 bytes, 15.2 MB; a MB is a million bytes, as disks are sold and clouds bill."""
    if size is None:
        return NONE
    if size < 1_000:
        return f"{size:,.0f} byte{'' if size == 1 else 's'}"
    return _scaled(size, ("bytes", "kB", "MB", "GB", "TB", "PB"))


def as_octet_rate(per_second: float | None) -> str:
    """How many bytes in a second: 0, 1.2 MB/s."""
    if not per_second:
        return NONE if per_second is None else "0"
    return f"{as_octets(per_second)}/s"


def as_span(seconds: float | None) -> str:
    """A span of time, by its two largest units: 0.4 s, 48 s, 18 min, 2 h 14 min, 8 d 4 h."""
    if seconds is None:
        return NONE
    if seconds < 1:
        return f"{seconds:.1f} s" if seconds >= 0.05 else "0 s"
    units = list(_SECONDS_OF.items())
    for (unit, size), (smaller, smaller_size) in pairwise(units):
        if seconds >= size:
            many, rest = int(seconds // size), int(seconds % size // smaller_size)
            has_rest = rest and unit != "min"
            return f"{many:,} {unit}" + (f" {rest} {smaller}" if has_rest else "")
    return f"{int(seconds)} s"


def as_ago(seconds: float) -> str:
    """How long ago something was: just now, 18 min ago; or when it will be: in 18 min."""
    if abs(seconds) < 1:
        return "just now"
    return f"{as_span(seconds)} ago" if seconds > 0 else f"in {as_span(-seconds)}"


def as_moment(seconds: float) -> str:
    """A time, from seconds since 1970."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{seconds} s after 1970"


def _scaled(number: float, units: tuple[str, ...]) -> str:
    # Three digits: 1.24, 12.4, 124. What rounding makes a thousand is 1 of the next unit.
    for unit in units[:-1]:
        if abs(number) < 999.5:
            return f"{_three_digits(number)} {unit}".rstrip()
        number /= 1_000
    return f"{_three_digits(number)} {units[-1]}"


def _three_digits(number: float) -> str:
    if abs(number) >= 99.95:
        return f"{number:,.0f}"
    text = f"{number:.1f}" if abs(number) >= 9.995 else f"{number:.2f}"
    return text.rstrip("0").rstrip(".")
