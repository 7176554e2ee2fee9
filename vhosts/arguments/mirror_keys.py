"""The keys of policies for mirrored queues, valid where RabbitMQ 3.10 takes them, and in its words."""

from collections.abc import Mapping

import msgspec

from routelog.vhosts.arguments.argument_checks import Check, integer

MODE, PARAMETERS = "ha-mode", "ha-params"


def _mode(value: object) -> str | None:
    valid = value in ("all", "exactly", "nodes")
    return None if valid else f"{_told(value)} is not a valid ha-mode value"


def _parameters(value: object) -> str | None:
    return None if isinstance(value, int | str | list) else "expected a number or a list of nodes"


def _batch_size(value: object) -> str | None:
    if integer(1)(value) is None:
        return None
    return f"ha-sync-batch-size takes an integer greater than 0, {_told(value)} given"


def _either(key: str, first: str, second: str) -> Check:
    def check(value: object) -> str | None:
        if value in (first, second):
            return None
        return f'{key} must be "{first}" or "{second}", got {_told(value)}'

    return check


MIRROR_KEYS: Mapping[str, Check] = {
    MODE: _mode,
    PARAMETERS: _parameters,
    "ha-sync-mode": _either("ha-sync-mode", "manual", "automatic"),
    "ha-sync-batch-size": _batch_size,
    "ha-promote-on-shutdown": _either("ha-promote-on-shutdown", "always", "when-synced"),
    "ha-promote-on-failure": _either("ha-promote-on-failure", "always", "when-synced"),
    "min-in-sync": integer(1),  # ours
}


def mirror_fault(definition: Mapping[str, object]) -> tuple[str, str] | None:
    """What is wrong with the keys of a definition together.

    Args:
        definition: its values are valid, each by itself.

    Returns:
        The key at fault and the reason; None: they are valid.
    """
    ours = [key for key in definition if key.startswith("ha-")]
    if not ours:
        return None
    if MODE not in definition:
        needed_by = "ha-params, ha-sync-mode or ha-promote-on-shutdown"
        return ours[0], f"ha-mode must be specified to specify {needed_by}"
    reason = _parameters_fault(definition[MODE], definition.get(PARAMETERS))
    return None if reason is None else (PARAMETERS, reason)


def _parameters_fault(mode: object, value: object) -> str | None:
    given = "none given" if value is None else f"{_told(value)} given"
    if mode == "all":
        return None if value is None else 'ha-mode="all" does not take parameters'
    if mode == "exactly":
        valid = integer(1)(value) is None
        return None if valid else f'ha-mode="exactly" takes an integer, {given}'
    if not isinstance(value, list):
        return f'ha-mode="nodes" takes a list, {given}'
    if not value:
        return 'ha-mode="nodes" list must be non-empty'
    others = [each for each in value if not isinstance(each, str)]
    if others:
        return f'ha-mode="nodes" takes a list of strings, {_told(others)} was not a string'
    return None


def _told(value: object) -> str:
    return msgspec.json.encode(value).decode()
