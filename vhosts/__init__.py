"""Virtual hosts: queues, consumers, policies, users and permissions."""

from routelog.vhosts.actor import Actor, acts, current_actor
from routelog.vhosts.arguments.argument_checks import OVERFLOWS, ROUND_ROBIN, age_microseconds
from routelog.vhosts.arguments.group_options import GROUP, GROUP_EXPIRES, GroupOptions, wanted_group
from routelog.vhosts.arguments.json_arguments import (
    checked_arguments,
    encoded_arguments,
    plain_arguments,
)
from routelog.vhosts.arguments.limits import (
    MAX_PUBLISH_BYTES_RATE,
    MAX_PUBLISH_RATE,
    USER_LIMITS,
    VHOST_LIMITS,
    Limits,
    checked_limits,
)
from routelog.vhosts.arguments.pattern import BadPattern, MatchBudget, OutOfTime, Pattern
from routelog.vhosts.arguments.policy import OPERATOR_KEYS, QUEUE_KEYS, Policy, merged_definitions
from routelog.vhosts.arguments.queue_arguments import FOR_LIFE, durability_level
from routelog.vhosts.arguments.queue_properties import QueueProperties
from routelog.vhosts.compatibility import RABBITMQ_PRODUCT, RABBITMQ_VERSION
from routelog.vhosts.counters.counters import (
    Counters,
    ExchangeCounters,
    ExchangeFlow,
    MessageCounters,
    TrafficCounters,
)
from routelog.vhosts.counters.totals import ChurnCounters, NodeCounters, VhostCounters
from routelog.vhosts.definitions.definition_difference import (
    DefinitionState,
    definition_difference,
)
from routelog.vhosts.definitions.definition_entries import (
    ARGON2ID,
    PolicyEntry,
    UserContent,
    split_tags,
)
from routelog.vhosts.definitions.definitions import (
    WRONG,
    Definitions,
    read_definitions,
    read_definitions_in_turns,
)
from routelog.vhosts.definitions.definitions_export import (
    described_parameter,
    described_permission,
    described_policy,
    described_topic_permission,
    described_user,
    described_vhost,
    exported_definitions,
)
from routelog.vhosts.definitions.definitions_import import DefinitionsImport
from routelog.vhosts.definitions.import_plan import planned_import
from routelog.vhosts.definitions.json_document import (
    BYTE_ORDER_MARK,
    JSON_FAULTS,
    MalformedJson,
    decoded_json,
)
from routelog.vhosts.definitions.node_definitions import AppliedDefinitions, NodeDefinitions
from routelog.vhosts.delays.held_messages import HeldMessages
from routelog.vhosts.delays.held_page import NOTHING_BEFORE, HeldMessage
from routelog.vhosts.errors import (
    AccessRefused,
    AuthenticationBusy,
    AuthenticationRefused,
    BindingLimitReached,
    ConnectionLimitReached,
    ConsumptionRefused,
    DefinitionsLimitReached,
    FilterRefused,
    GetRefused,
    GroupInequivalent,
    GroupInUse,
    InvalidArguments,
    InvalidConsumerArgument,
    InvalidDefinition,
    InvalidFilter,
    InvalidLimit,
    InvalidParameter,
    InvalidPermission,
    InvalidPolicy,
    InvalidQueueArgument,
    InvalidQueueProperty,
    InvalidRequest,
    InvalidStreamOffset,
    InvalidUser,
    InvalidVhost,
    NeedsName,
    NotReadable,
    ParameterNotFound,
    PlaceUnknown,
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
    SessionLost,
    TooLargeToRemember,
    TooManyFailedLogins,
    TooManyGroups,
    TransactionRefused,
    Untaken,
    UserBindingLimitReached,
    UserChannelLimitReached,
    UserConnectionLimitReached,
    UserExists,
    UserNotFound,
    VhostAccessRefused,
    VhostNotFound,
)
from routelog.vhosts.filters.filter_arguments import filter_arguments
from routelog.vhosts.filters.reader_filter import ReaderFilter, reader_filter, sql_condition
from routelog.vhosts.messages.batch_outcome import BatchOutcome
from routelog.vhosts.messages.consumer import CREDIT_UNLIMITED, Consumer
from routelog.vhosts.messages.delivery import Delivery, DeliverySource, ReturnReason, put_back
from routelog.vhosts.messages.recipient import Recipient
from routelog.vhosts.messages.snapshot import (
    BrowsedMessage,
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    MessageHolder,
    TakenMessage,
)
from routelog.vhosts.nodes.count_exchange import (
    TELL_SECONDS,
    CountedFront,
    FrontCounts,
    LeaderCounts,
)
from routelog.vhosts.nodes.node_questions import PIECE_BYTES as ANSWER_PIECE_BYTES
from routelog.vhosts.nodes.node_questions import (
    AnswerFailed,
    AnswerPieces,
    AskedNode,
    NodeAnswer,
    TellingNode,
    unanswered,
)
from routelog.vhosts.partitions.queue_partition import UNCOUNTED, QueuePartition
from routelog.vhosts.partitions.stream_reader import stream_position
from routelog.vhosts.partitions.withheld_messages import WithheldMessages
from routelog.vhosts.people.admission import Admission
from routelog.vhosts.people.client_address import (
    DEFAULT_PASSWORD,
    DEFAULT_USER,
    LoopbackRule,
    is_local,
    source_of,
)
from routelog.vhosts.people.imported_password import (
    rabbitmq_hash,
)
from routelog.vhosts.people.password import PasswordVerifier
from routelog.vhosts.people.permission_book import PermissionBook, PermissionCache, ResourceKind
from routelog.vhosts.people.shared_counts import CountOf, SharedCounts
from routelog.vhosts.people.user_directory import UserDirectory
from routelog.vhosts.publishing.appending import Appending
from routelog.vhosts.publishing.client_publish import batches_of
from routelog.vhosts.publishing.decision import Decision, Router
from routelog.vhosts.publishing.internal_publisher import LOG_EXCHANGE, TRACE_EXCHANGE, tell
from routelog.vhosts.publishing.stateful_route import StatefulRoute
from routelog.vhosts.queues.consumer_group import ConsumerGroup
from routelog.vhosts.queues.dispatcher import delivery_cost
from routelog.vhosts.queues.event_feed import EventFeed, TellEvent
from routelog.vhosts.queues.message_move import (
    SAMPLE_MAX,
    Destination,
    MovedMessage,
    MoveMode,
    MoveOrder,
    MoveReport,
    ToExchange,
    ToOrigin,
    ToQueue,
    Unmoved,
    nowhere,
)
from routelog.vhosts.queues.message_search import (
    UNSETTLED,
    FoundMessage,
    MessageFilter,
    MessageSearch,
    MessageState,
    Place,
)
from routelog.vhosts.queues.queue import Queue
from routelog.vhosts.queues.queue_declaration import REPLICATED, server_name
from routelog.vhosts.queues.queue_handle import (
    Answer,
    ChannelPrefetch,
    ConsumeOptions,
    ConsumerSource,
    QueueCounts,
    QueueHandle,
    after,
    decided,
    pending,
    then,
    value_of,
)
from routelog.vhosts.rules.queue_rules import keys_of
from routelog.vhosts.rules.unique_keys import UniqueKeys
from routelog.vhosts.sessions.definition_barrier import TELLING, DefinitionBarrier
from routelog.vhosts.sessions.front_session import FrontSession
from routelog.vhosts.sessions.front_vhosts import FrontVhosts
from routelog.vhosts.sessions.hosted_session import HostedSession, SessionHost
from routelog.vhosts.sessions.hosted_transaction import (
    CommitParts,
    SettledRange,
    TransactionParts,
)
from routelog.vhosts.sessions.leader_link import LeaderLink
from routelog.vhosts.sessions.remote_definitions import FrontConnections
from routelog.vhosts.sessions.remote_partition import RemotePartition
from routelog.vhosts.sessions.session_message import ANSWERED as ANSWERED
from routelog.vhosts.sessions.session_message import OUTBOX_BYTES_MAX as SESSION_OUTBOX_BYTES_MAX
from routelog.vhosts.sessions.session_message import VERSION as SESSION_VERSION
from routelog.vhosts.sessions.session_message import (
    BadSessionMessage,
    SessionMessage,
)
from routelog.vhosts.sessions.session_message import Kind as SessionKind
from routelog.vhosts.sessions.session_message import decode_message as decode_session_message
from routelog.vhosts.sessions.session_message import message_bytes as session_message_bytes
from routelog.vhosts.sessions.session_message import message_pieces as session_message_pieces
from routelog.vhosts.sessions.session_message import value_in as session_value
from routelog.vhosts.stored.declared_partitions import DeclaredPartitions, partition_names
from routelog.vhosts.stored.global_parameters import CLUSTER_NAME, GlobalParameters
from routelog.vhosts.stored.permission import (
    FULL_PERMISSION,
    Permission,
    TopicPermission,
    TopicRule,
    Verb,
)
from routelog.vhosts.stored.topology_record import VhostRecord
from routelog.vhosts.stored.user import User
from routelog.vhosts.vhost.group_expiry import GroupExpiry
from routelog.vhosts.vhost.topology_keeper import Durable
from routelog.vhosts.vhost.vhost import VirtualHost
from routelog.vhosts.vhost.vhost_definitions import (
    BindCheck,
    Check,
    RemoteTransaction,
    VhostDefinitions,
)
from routelog.vhosts.vhost.vhost_directory import VhostDirectory
