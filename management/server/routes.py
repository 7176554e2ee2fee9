"""The paths of the HTTP API: for each one the method, who may call it, and what answers."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum

from routelog.management.calls.answer import Answer
from routelog.management.calls.call import Call
from routelog.management.calls.caller import Need
from routelog.management.calls.failures import Refused, vhost_or_user_not_found
from routelog.management.calls.operation import Operation, operation_of
from routelog.management.calls.other_statistics import (
    EXCHANGE_STATISTICS,
    EXCHANGE_STATISTICS_OF_VHOST,
    VHOST_STATISTICS,
    exchange_statistics_here,
    vhost_statistics_here,
)
from routelog.management.findings.client_findings import TROUBLED, troubled_here
from routelog.management.findings.findings import list_findings
from routelog.management.metrics.process_metrics import CLIENT_METRICS, client_metrics_here
from routelog.management.views import (
    backup_views,
    bindings,
    broker_log,
    cluster,
    connections,
    consumers,
    delayed,
    exchange_views,
    flows,
    log_readers,
    log_views,
    messages,
    node_views,
    people,
    queues,
    rabbitmq_views,
    readers,
    rules,
    verdicts,
    virtual_hosts,
)
from routelog.management.views.health import unless_log_failed

Handler = Callable[[Call], Answer | Awaitable[Answer]]


class Scope(Enum):
    """What else is asked of the caller when the path names a vhost."""

    SEEN = "it is one that the caller sees"
    ENTERED = "it is one that the caller may enter"
    ANY = "nothing: the tag says enough"
    POLICIES = "the caller may enter it, or is an administrator"


@dataclass(frozen=True, slots=True)
class Route:
    """One path and method.

    Attributes:
        without_vhost: what is answered when the vhost that the path names is not there, other than that.
        is_traffic: programs ask it all the time, so the log tells of it for debugging only.
    """

    method: str
    path: str
    need: Need
    handler: Handler
    scope: Scope = Scope.ANY
    without_vhost: Callable[[], Refused] | None = None
    is_traffic: bool = False

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that this answers: HEAD is GET without a body."""
        return (self.method, "HEAD") if self.method == "GET" else (self.method,)

    @property
    def operation(self) -> Operation:
        """What the handler takes and answers."""
        return operation_of(self.handler)

    @property
    def has_vhost(self) -> bool:
        """The path names a vhost, which must be there."""
        return "{vhost}" in self.path


def _get(path: str, handler: Handler, need: Need = Need.MANAGEMENT) -> Route:
    scope = Scope.SEEN if need is Need.MANAGEMENT else Scope.ANY
    return Route("GET", path, need, handler, scope)


def _health(path: str, check: Handler) -> Route:
    return _get(path, unless_log_failed(check))


def _change(method: str, path: str, handler: Handler) -> Route:
    return Route(method, path, Need.MANAGEMENT, handler, Scope.ENTERED)


def _admin(
    method: str,
    path: str,
    handler: Handler,
    without_vhost: Callable[[], Refused] | None = None,
) -> Route:
    return Route(method, path, Need.ADMINISTRATOR, handler, without_vhost=without_vhost)


def _policy(method: str, path: str, handler: Handler) -> Route:
    return Route(method, path, Need.POLICYMAKER, handler, Scope.POLICIES)


def _log(path: str, handler: Handler, method: str = "GET") -> Route:
    return Route(method, f"/logs/{{vhost}}{path}", Need.LOGIN, handler, Scope.ENTERED)


_BINDING = "/bindings/{vhost}/e/{source}/{kind:[qe]}/{destination}"
_QUEUE = "/queues/{vhost}/{name}"
_EXCHANGE = "/exchanges/{vhost}/{name}"
# The name of the default one may be written, or be empty.
_ANY_EXCHANGE = "/exchanges/{vhost}/{name:[^/]*}"
_DELAYED = f"{_EXCHANGE}/delayed"
_HEALTH = "/health/checks"
_LOG = "/{queue}/{partition}"

ROUTES: tuple[Route, ...] = (
    _get("/overview", node_views.overview),
    _get("/findings", list_findings),
    _get("/whoami", people.whoami),
    _get("/cluster-name", node_views.cluster_name),
    _admin("PUT", "/cluster-name", node_views.put_cluster_name),
    _get("/extensions", node_views.extensions),
    _get("/cluster", cluster.get_cluster, Need.MONITORING),
    _admin("GET", "/log", broker_log.get_log),
    _get("/nodes", node_views.list_nodes, Need.MONITORING),
    _get("/nodes/{name}", node_views.get_node, Need.MONITORING),
    # Health
    _health(f"{_HEALTH}/alarms", node_views.check_alarms),
    _health(f"{_HEALTH}/local-alarms", node_views.check_alarms),
    _health(node_views.CERTIFICATES, node_views.check_certificates),
    _health(f"{_HEALTH}/virtual-hosts", node_views.check_ok),
    _health(f"{_HEALTH}/ready-to-serve-clients", node_views.check_ready),
    _health(f"{_HEALTH}/node-is-quorum-critical", node_views.check_quorum),
    _health(f"{_HEALTH}/node-is-mirror-sync-critical", node_views.check_mirrors),
    _health(f"{_HEALTH}/port-listener/{{port}}", node_views.check_port),
    _health(f"{_HEALTH}/protocol-listener/{{protocol}}", node_views.check_protocol),
    _health("/healthchecks/node", node_views.check_alarms),
    _health("/healthchecks/node/{name}", node_views.check_node),
    Route(
        "GET",
        "/aliveness-test/{vhost}",
        Need.MANAGEMENT,
        node_views.check_aliveness,
        Scope.ENTERED,
    ),
    # What RabbitMQ has, and is not here
    _admin("GET", "/feature-flags", rabbitmq_views.list_feature_flags),
    _admin("PUT", "/feature-flags/{name}/enable", rabbitmq_views.enable_feature_flag),
    _admin("DELETE", "/reset", rabbitmq_views.done),
    _admin("DELETE", "/reset/{node}", rabbitmq_views.reset),
    _get("/auth", rabbitmq_views.auth),
    *(
        Route(method, f"/auth/attempts/{{node}}{of}", Need.MONITORING, handler)
        for of in ("", "/source")
        for method, handler in (
            ("GET", rabbitmq_views.get_attempts),
            ("DELETE", rabbitmq_views.delete_attempts),
        )
    ),
    *(
        route
        for kind in ("/shovels", "/federation-links")
        for route in (
            _get(kind, rabbitmq_views.nothing),
            _get(f"{kind}/{{vhost}}", rabbitmq_views.nothing),
        )
    ),
    _get("/federation-links/state/{state}", rabbitmq_views.nothing),
    _admin("POST", "/queues/{vhost}/{name}/actions", rabbitmq_views.act_on_queue),
    _admin("POST", "/rebalance/queues", rabbitmq_views.done),
    _admin("POST", "/vhosts/{vhost}/start/{node}", rabbitmq_views.start_vhost),
    _get("/nodes/{node}/memory", rabbitmq_views.memory, Need.MONITORING),
    _get("/nodes/{node}/memory/relative", rabbitmq_views.relative_memory, Need.MONITORING),
    # Queues
    _get("/queues", queues.list_queues),
    _get("/queues/{vhost}", queues.list_queues_of_vhost),
    _get(_QUEUE, queues.get_queue),
    _change("PUT", _QUEUE, queues.put_queue),
    _change("DELETE", _QUEUE, queues.delete_queue),
    _change("PUT", f"{_QUEUE}/arguments", queues.change_queue),
    _change("PUT", f"{_QUEUE}/pause", queues.pause_queue),
    _change("PUT", f"{_QUEUE}/resume", queues.resume_queue),
    _get(f"{_QUEUE}/bindings", queues.list_queue_bindings),
    _change("DELETE", f"{_QUEUE}/contents", queues.purge_queue),
    _change("POST", f"{_QUEUE}/get", queues.get_messages),
    Route("GET", f"{_QUEUE}/messages", Need.MANAGEMENT, messages.browse_messages, Scope.ENTERED),
    _change("POST", f"{_QUEUE}/move", messages.move_messages),
    _change("POST", f"{_QUEUE}/redrive", messages.redrive_messages),
    _change("POST", f"{_QUEUE}/replay", messages.replay_messages),
    _change("POST", f"{_QUEUE}/restore", messages.restore_messages),
    # Exchanges
    _get("/exchanges", exchange_views.list_exchanges),
    _get("/exchanges/{vhost}", exchange_views.list_exchanges_of_vhost),
    _get(_EXCHANGE, exchange_views.get_exchange),
    _change("PUT", _EXCHANGE, exchange_views.put_exchange),
    _change("DELETE", _EXCHANGE, exchange_views.delete_exchange),
    _get(f"{_ANY_EXCHANGE}/bindings/source", exchange_views.list_bindings_from),
    _get(f"{_ANY_EXCHANGE}/bindings/destination", exchange_views.list_bindings_to),
    _get(f"{_ANY_EXCHANGE}/route", exchange_views.try_route),
    replace(_change("POST", f"{_ANY_EXCHANGE}/publish", exchange_views.publish), is_traffic=True),
    replace(
        _change("POST", f"{_ANY_EXCHANGE}/publish/batch", exchange_views.publish_batch),
        is_traffic=True,
    ),
    Route("GET", _DELAYED, Need.MANAGEMENT, delayed.list_delayed, Scope.ENTERED),
    _change("DELETE", _DELAYED, delayed.cancel_all),
    _change("DELETE", f"{_DELAYED}/{{id}}", delayed.cancel_one),
    # Bindings
    _get("/bindings", bindings.list_bindings),
    _get("/bindings/{vhost}", bindings.list_bindings_of_vhost),
    _get(_BINDING, bindings.list_bindings_between),
    _change("POST", _BINDING, bindings.post_binding),
    _get(f"{_BINDING}/{{properties}}", bindings.get_binding),
    _change("DELETE", f"{_BINDING}/{{properties}}", bindings.delete_binding),
    # Connections, channels, consumers
    _get("/connections", connections.list_connections),
    _get("/connections/{name}", connections.get_connection),
    Route("DELETE", "/connections/{name}", Need.MANAGEMENT, connections.delete_connection),
    _get("/connections/{name}/channels", connections.list_channels_of_connection),
    _get("/connections/username/{name}", connections.list_connections_of_user),
    Route(
        "DELETE",
        "/connections/username/{name}",
        Need.MANAGEMENT,
        connections.delete_connections_of_user,
    ),
    _get("/vhosts/{vhost}/connections", connections.list_connections_of_vhost),
    _get("/vhosts/{vhost}/channels", connections.list_channels_of_vhost),
    _get("/channels", connections.list_channels),
    _get("/channels/{channel}", connections.get_channel),
    _get("/consumers", consumers.list_consumers),
    _get("/consumers/{vhost}", consumers.list_consumers_of_vhost),
    # Virtual hosts
    _get("/vhosts", virtual_hosts.list_vhosts),
    _admin("GET", "/vhosts/{vhost}", virtual_hosts.get_vhost),
    _admin("PUT", "/vhosts/{name}", virtual_hosts.put_vhost),
    _admin("DELETE", "/vhosts/{name}", virtual_hosts.delete_vhost),
    _get("/vhosts/{vhost}/permissions", people.list_permissions_of_vhost, Need.ADMINISTRATOR),
    _get(
        "/vhosts/{vhost}/topic-permissions",
        people.list_topic_permissions_of_vhost,
        Need.ADMINISTRATOR,
    ),
    # Users and permissions
    _admin("GET", "/users", people.list_users),
    _admin("GET", "/users/without-permissions", people.list_users_without_permissions),
    _admin("POST", "/users/bulk-delete", people.delete_users),
    _admin("GET", "/users/{user}", people.get_user),
    _admin("PUT", "/users/{user}", people.put_user),
    _admin("DELETE", "/users/{user}", people.delete_user),
    _admin("PUT", "/users/{user}/tags", people.put_tags),
    _admin("GET", "/users/{user}/permissions", people.list_permissions_of_user),
    _admin("GET", "/users/{user}/topic-permissions", people.list_topic_permissions_of_user),
    _admin("GET", "/permissions", people.list_permissions),
    _admin("GET", "/permissions/{vhost}/{user}", people.get_permission),
    _admin("GET", "/permissions/{vhost}/{user}/may", verdicts.may),
    _admin(
        "PUT",
        "/permissions/{vhost}/{user}",
        people.put_permission,
        vhost_or_user_not_found,
    ),
    _admin("DELETE", "/permissions/{vhost}/{user}", people.delete_permission),
    _admin("GET", "/topic-permissions", people.list_topic_permissions),
    _admin(
        "GET",
        "/topic-permissions/{vhost}/{user}",
        people.list_topic_permissions_of_user_in_vhost,
    ),
    _admin(
        "PUT",
        "/topic-permissions/{vhost}/{user}",
        people.put_topic_permission,
        vhost_or_user_not_found,
    ),
    _admin("DELETE", "/topic-permissions/{vhost}/{user}", people.delete_topic_permissions),
    _admin(
        "DELETE",
        "/topic-permissions/{vhost}/{user}/{exchange}",
        people.delete_topic_permission,
    ),
    # Policies, limits, parameters
    *(
        route
        for kind in ("/policies", "/operator-policies")
        for route in (
            _get(kind, rules.list_policies),
            _get(f"{kind}/{{vhost}}", rules.list_policies_of_vhost),
            _get(f"{kind}/{{vhost}}/{{name}}", rules.get_policy),
        )
    ),
    _policy("PUT", "/policies/{vhost}/{name}", rules.put_policy),
    _policy("DELETE", "/policies/{vhost}/{name}", rules.delete_policy),
    _admin("PUT", "/operator-policies/{vhost}/{name}", rules.put_policy),
    _admin("DELETE", "/operator-policies/{vhost}/{name}", rules.delete_policy),
    _get("/vhost-limits", rules.list_vhost_limits),
    _get("/vhost-limits/{vhost}", rules.list_limits_of_vhost),
    _admin("PUT", "/vhost-limits/{vhost}/{limit}", rules.put_vhost_limit),
    _admin("DELETE", "/vhost-limits/{vhost}/{limit}", rules.delete_vhost_limit),
    _get("/user-limits", rules.list_user_limits),
    _get("/user-limits/{user}", rules.list_limits_of_user),
    _admin("PUT", "/user-limits/{user}/{limit}", rules.put_user_limit),
    _admin("DELETE", "/user-limits/{user}/{limit}", rules.delete_user_limit),
    _get("/parameters", rules.list_parameters, Need.POLICYMAKER),
    _get("/parameters/{component}", rules.list_parameters_of_component, Need.POLICYMAKER),
    _policy("GET", "/parameters/{component}/{vhost}", rules.list_parameters_of_component),
    _policy("GET", "/parameters/{component}/{vhost}/{name}", rules.get_parameter),
    _policy("PUT", "/parameters/{component}/{vhost}/{name}", rules.put_parameter),
    _policy("DELETE", "/parameters/{component}/{vhost}/{name}", rules.delete_parameter),
    _get("/global-parameters", rules.list_global_parameters, Need.POLICYMAKER),
    _get("/global-parameters/{name}", rules.get_global_parameter, Need.POLICYMAKER),
    _policy("PUT", "/global-parameters/{name}", rules.put_global_parameter),
    _policy("DELETE", "/global-parameters/{name}", rules.delete_global_parameter),
    # Readers of logs
    _get("/readers", readers.list_all_readers),
    _get("/readers/{vhost}", readers.list_readers_of_vhost),
    # Logs, for whoever may read the queue
    Route("GET", "/logs", Need.LOGIN, log_views.list_vhosts_with_logs),
    _log("", log_views.list_logs),
    _log("/token", log_views.post_token, "POST"),
    _log("/{queue}/readers", log_readers.list_readers),
    replace(_log("/{queue}/readers/{name}", log_readers.put_reader, "PUT"), is_traffic=True),
    _log("/{queue}/readers/{name}", log_readers.delete_reader, "DELETE"),
    _log("/{queue}/readers/{name}/position", log_readers.move_reader, "PUT"),
    _log(_LOG, log_views.get_log),
    _log(f"{_LOG}/offset", log_views.get_offset),
    _log(f"{_LOG}/body-sizes", log_views.get_body_sizes),
    _log(f"{_LOG}/records", log_views.get_records),
    # Backups
    _admin("POST", "/backup", backup_views.post_backup),
    _admin("GET", "/backup", backup_views.get_backup),
    _admin("DELETE", "/backup", backup_views.delete_backup),
    # Definitions
    _admin("GET", "/definitions", virtual_hosts.get_definitions),
    _admin("POST", "/definitions", virtual_hosts.post_definitions),
    _admin("GET", "/definitions/{vhost}", virtual_hosts.get_definitions_of_vhost),
    _admin("POST", "/definitions/{vhost}", virtual_hosts.post_definitions_of_vhost),
)
# What nodes ask each other, and the page; no client does.
INNER_ROUTES: tuple[Route, ...] = (
    _get(CLIENT_METRICS, client_metrics_here, Need.MONITORING),
    _get(node_views.CLIENT_TOTALS, node_views.get_client_totals),
    _get(TROUBLED, troubled_here),
    _get(VHOST_STATISTICS, vhost_statistics_here),
    _get(EXCHANGE_STATISTICS, exchange_statistics_here),
    _get(EXCHANGE_STATISTICS_OF_VHOST, exchange_statistics_here),
    _get(consumers.CONSUMERS_OF_QUEUE, consumers.consumers_here),
    _get(flows.DELIVERIES_OF_QUEUE, flows.deliveries_here),
    _get(flows.PUBLISHES_TO_EXCHANGE, flows.publishes_here),
)
