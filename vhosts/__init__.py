"""Virtual hosts: queues, consumers, policies, users and permissions."""

from vhosts.actor import Actor, acts, current_actor
from vhosts.admission import Admission
from vhosts.appending import Appending
from vhosts.broker_message import EVENT_EXCHANGE, LOG_EXCHANGE, TRACE_EXCHANGE, tell
from vhosts.comeback import Comeback
from vhosts.compatibility import RABBITMQ_PRODUCT, RABBITMQ_VERSION
from vhosts.consumer import CREDIT_UNLIMITED, Consumer
from vhosts.consumer_group import ConsumerGroup
from vhosts.definition_entries import ARGON2ID, PolicyEntry, split_tags
from vhosts.definitions import Definitions, read_definitions, read_definitions_in_turns
from vhosts.definitions_export import (
    described_parameter,
    described_permission,
    described_policy,
    described_topic_permission,
    described_user,
    described_vhost,
    exported_definitions,
)
from vhosts.definitions_import import DefinitionsImport
from vhosts.delivery import Delivery, DeliverySource
from vhosts.dispatcher import delivery_cost
from vhosts.effective_arguments import EffectiveArguments, merged_definitions
from vhosts.errors import (
    AccessRefused,
    AuthenticationBusy,
    AuthenticationRefused,
    ConnectionLimitReached,
    ConsumptionRefused,
    GetRefused,
    GroupInUse,
    InvalidArguments,
    InvalidConsumerArgument,
    InvalidDefinition,
    InvalidLimit,
    InvalidParameter,
    InvalidPermission,
    InvalidPolicy,
    InvalidQueueArgument,
    InvalidQueueProperty,
    InvalidStreamOffset,
    InvalidUser,
    InvalidVhost,
    NeedsName,
    NotReadable,
    ParameterNotFound,
    PolicyNotFound,
    PublishRefused,
    QueueInequivalent,
    QueueInUse,
    QueueLimitReached,
    QueueLocked,
    QueueNotEmpty,
    QueueQuarantined,
    QueueStopped,
    QueueUnreadable,
    TooLargeToRemember,
    TooManyFailedLogins,
    TooManyGroups,
    UserChannelLimitReached,
    UserConnectionLimitReached,
    UserExists,
    UserNotFound,
    VhostAccessRefused,
    VhostNotFound,
)
from vhosts.event_feed import EventFeed, TellEvent
from vhosts.global_parameters import CLUSTER_NAME, GlobalParameters
from vhosts.group_expiry import GroupExpiry
from vhosts.group_options import GROUP, GROUP_EXPIRES, GroupOptions, wanted_group
from vhosts.held_messages import HeldMessages
from vhosts.held_page import NOTHING_BEFORE, HeldMessage
from vhosts.imported_password import DEFAULT_ALGORITHM, imported_hash, split_imported_hash
from vhosts.json_arguments import checked_arguments, encoded_arguments, plain_arguments
from vhosts.limits import USER_LIMITS, VHOST_LIMITS, Limits, checked_limits
from vhosts.loopback import may_connect_from
from vhosts.match_budget import MatchBudget, OutOfTime
from vhosts.passage import Passage
from vhosts.password import PasswordVerifier
from vhosts.pattern import BadPattern, Pattern
from vhosts.permission import FULL_PERMISSION, Permission, Verb
from vhosts.permission_book import PermissionBook, ResourceKind
from vhosts.permission_cache import PermissionCache
from vhosts.policy import Policy
from vhosts.queue import Queue
from vhosts.queue_declaration import server_name
from vhosts.queue_partition import QueuePartition
from vhosts.queue_properties import QueueProperties
from vhosts.recipient import Recipient
from vhosts.sharing_out import by_route, disjoint
from vhosts.snapshot import ChannelSnapshot, ConnectionSnapshot, ConsumerSnapshot, TakenMessage
from vhosts.source_network import source_of
from vhosts.timer import Timer
from vhosts.topic_permission import TopicPermission
from vhosts.topology_keeper import Durable
from vhosts.topology_record import VhostRecord, partition_names
from vhosts.user import User
from vhosts.user_directory import UserDirectory
from vhosts.vhost import VirtualHost
from vhosts.vhost_directory import VhostDirectory

__all__ = [
    "ARGON2ID",
    "CLUSTER_NAME",
    "CREDIT_UNLIMITED",
    "DEFAULT_ALGORITHM",
    "EVENT_EXCHANGE",
    "FULL_PERMISSION",
    "GROUP",
    "GROUP_EXPIRES",
    "LOG_EXCHANGE",
    "NOTHING_BEFORE",
    "RABBITMQ_PRODUCT",
    "RABBITMQ_VERSION",
    "TRACE_EXCHANGE",
    "USER_LIMITS",
    "VHOST_LIMITS",
    "AccessRefused",
    "Actor",
    "Admission",
    "Appending",
    "AuthenticationBusy",
    "AuthenticationRefused",
    "BadPattern",
    "ChannelSnapshot",
    "Comeback",
    "ConnectionLimitReached",
    "ConnectionSnapshot",
    "Consumer",
    "ConsumerGroup",
    "ConsumerSnapshot",
    "ConsumptionRefused",
    "Definitions",
    "DefinitionsImport",
    "Delivery",
    "DeliverySource",
    "Durable",
    "EffectiveArguments",
    "EventFeed",
    "GetRefused",
    "GlobalParameters",
    "GroupExpiry",
    "GroupInUse",
    "GroupOptions",
    "HeldMessage",
    "HeldMessages",
    "InvalidArguments",
    "InvalidConsumerArgument",
    "InvalidDefinition",
    "InvalidLimit",
    "InvalidParameter",
    "InvalidPermission",
    "InvalidPolicy",
    "InvalidQueueArgument",
    "InvalidQueueProperty",
    "InvalidStreamOffset",
    "InvalidUser",
    "InvalidVhost",
    "Limits",
    "MatchBudget",
    "NeedsName",
    "NotReadable",
    "OutOfTime",
    "ParameterNotFound",
    "Passage",
    "PasswordVerifier",
    "Pattern",
    "Permission",
    "PermissionBook",
    "PermissionCache",
    "Policy",
    "PolicyEntry",
    "PolicyNotFound",
    "PublishRefused",
    "Queue",
    "QueueInUse",
    "QueueInequivalent",
    "QueueLimitReached",
    "QueueLocked",
    "QueueNotEmpty",
    "QueuePartition",
    "QueueProperties",
    "QueueQuarantined",
    "QueueStopped",
    "QueueUnreadable",
    "Recipient",
    "ResourceKind",
    "TakenMessage",
    "TellEvent",
    "Timer",
    "TooLargeToRemember",
    "TooManyFailedLogins",
    "TooManyGroups",
    "TopicPermission",
    "User",
    "UserChannelLimitReached",
    "UserConnectionLimitReached",
    "UserDirectory",
    "UserExists",
    "UserNotFound",
    "Verb",
    "VhostAccessRefused",
    "VhostDirectory",
    "VhostNotFound",
    "VhostRecord",
    "VirtualHost",
    "acts",
    "by_route",
    "checked_arguments",
    "checked_limits",
    "current_actor",
    "delivery_cost",
    "described_parameter",
    "described_permission",
    "described_policy",
    "described_topic_permission",
    "described_user",
    "described_vhost",
    "disjoint",
    "encoded_arguments",
    "exported_definitions",
    "imported_hash",
    "may_connect_from",
    "merged_definitions",
    "partition_names",
    "plain_arguments",
    "read_definitions",
    "read_definitions_in_turns",
    "server_name",
    "source_of",
    "split_imported_hash",
    "split_tags",
    "tell",
    "wanted_group",
]
