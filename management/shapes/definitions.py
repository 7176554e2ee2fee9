"""Definitions, as one document."""

from typing import Any, TypedDict

Entries = list[dict[str, Any]]


class DefinitionsDocument(TypedDict, total=False):
    """What is declared: of one vhost, or everything."""

    rabbit_version: str
    rabbitmq_version: str
    product_name: str
    product_version: str
    users: Entries
    vhosts: Entries
    permissions: Entries
    topic_permissions: Entries
    parameters: Entries
    global_parameters: Entries
    policies: Entries
    queues: Entries
    exchanges: Entries
    bindings: Entries


class PlannedEntry(TypedDict):
    """What would become of an entry."""

    what: str
    kind: str
    vhost: str
    name: str
    reason: str


class ImportAnswer(TypedDict, total=False):
    """Entries that have no effect here, in words; of a dry run, what would become of all."""

    kept_without_effect: list[str]
    counts: dict[str, Any]
    entries: list[PlannedEntry]
