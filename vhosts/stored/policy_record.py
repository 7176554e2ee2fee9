"""How policies are kept in the metadata store::

    key                               value, JSON
    policies/<vhost>/<name>           {"version":1,"name":…,"pattern":…,"definition":{…},…}
    operator-policies/<vhost>/<name>  the same

Names in keys are percent-encoded; names are read from the values.
"""

from typing import Any, Literal

import msgspec

from routelog.log_backend import Change, MetadataCorrupt
from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.errors import InvalidPolicy
from routelog.vhosts.stored.topology_record import record_key


class _PolicyRecord(msgspec.Struct, frozen=True):
    name: str
    pattern: str
    definition: dict[str, Any]
    priority: int
    apply_to: str
    keeps_unknown: bool = False
    version: Literal[1] = 1


def policy_kind(*, operator: bool) -> str:
    """What keys of policies, or of operator policies, begin with."""
    return "operator-policies" if operator else "policies"


def policy_change(vhost: str, policy: Policy, *, deleted: bool = False) -> Change:
    """Write or delete the policy."""
    record = _PolicyRecord(
        policy.name,
        policy.pattern,
        dict(policy.definition),
        policy.priority,
        policy.apply_to,
        policy.keeps_unknown,
    )
    key = record_key(policy_kind(operator=policy.is_operator), vhost, policy.name)
    return Change(key, None if deleted else msgspec.json.encode(record))


def decode_policy(key: bytes, value: bytes, *, operator: bool) -> Policy:
    """Read a policy back.

    Raises:
        MetadataCorrupt: it cannot be one that `policy_change` wrote.
    """
    try:
        record = msgspec.json.decode(value, type=_PolicyRecord)
        return Policy(
            record.name,
            record.pattern,
            record.definition,
            record.priority,
            record.apply_to,
            operator,
            record.keeps_unknown,
        )
    except (msgspec.MsgspecError, InvalidPolicy) as error:
        raise MetadataCorrupt(f"{key!r}: {error}") from error
