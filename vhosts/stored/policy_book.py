"""The policies of a virtual host, and which of them each queue and exchange has."""

from collections.abc import Iterable

from routelog.log_backend import Change, MetadataWriter
from routelog.vhosts.arguments.pattern import MatchBudget
from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.errors import PolicyNotFound
from routelog.vhosts.stored.policy_record import decode_policy, policy_change, policy_kind
from routelog.vhosts.stored.stored_definitions import StoredDefinitions, key_names
from routelog.vhosts.stored.topology_record import prefix


class PolicyBook(StoredDefinitions):
    """Policies and operator policies by name. Of those that match, the highest priority counts."""

    def __init__(self, vhost: str, writer: MetadataWriter) -> None:
        kinds = (policy_kind(operator=operator) for operator in (False, True))
        super().__init__(writer, *(prefix(kind, vhost) for kind in kinds))
        self._vhost = vhost
        self._policies: dict[bool, dict[str, Policy]] = {False: {}, True: {}}
        self._ranked: dict[bool, list[Policy]] = {False: [], True: []}

    def apply(self, change: Change) -> None:
        """See `StoredDefinitions`."""
        operator = change.key.startswith(policy_kind(operator=True).encode())
        policies = self._policies[operator]
        if change.value is None:
            _, name = key_names(change.key)
            policies.pop(name, None)
        else:
            policy = decode_policy(change.key, change.value, operator=operator)
            policies[policy.name] = policy
        # Of equal priorities the first by name: the answer must not depend on the order of calls.
        by_name = self.all(operator=operator)
        self._ranked[operator] = sorted(by_name, key=lambda policy: -policy.priority)

    def all(self, *, operator: bool) -> list[Policy]:
        """All policies, or operator policies, by name."""
        return sorted(self._policies[operator].values(), key=lambda policy: policy.name)

    def get(self, name: str, *, operator: bool) -> Policy:
        """A policy.

        Raises:
            PolicyNotFound: there is none of this name.
        """
        policy = self._policies[operator].get(name)
        if policy is None:
            raise PolicyNotFound(name, self._vhost)
        return policy

    def of_queue(self, name: str, queue_type: str) -> tuple[Policy | None, Policy | None]:
        """The policy and the operator policy of a queue; each kind has a turn's time for its patterns."""

        def first(policies: list[Policy]) -> Policy | None:
            budget = MatchBudget()
            return _first(p for p in policies if p.applies_to_queue(name, queue_type, budget))

        return first(self._ranked[False]), first(self._ranked[True])

    def of_exchange(self, name: str) -> Policy | None:
        """The policy of an exchange. No key of operator policies is about exchanges."""
        budget = MatchBudget()
        return _first(p for p in self._ranked[False] if p.applies_to_exchange(name, budget))

    def deletions(self) -> list[Change]:
        """What deletes the records of all policies."""
        policies = [*self._policies[False].values(), *self._policies[True].values()]
        return [policy_change(self._vhost, policy, deleted=True) for policy in policies]


def _first(policies: Iterable[Policy]) -> Policy | None:
    return next(iter(policies), None)
