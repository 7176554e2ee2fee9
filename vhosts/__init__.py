"""Virtual hosts: queues, consumers, policies, users and permissions."""

from vhosts.consumer import CREDIT_UNLIMITED, Consumer
from vhosts.consumer_group import ConsumerGroup
from vhosts.delivery import Delivery, DeliverySource
from vhosts.errors import (
    AccessRefused,
    AuthenticationBusy,
    AuthenticationRefused,
    ConsumptionRefused,
    GetRefused,
    InvalidConsumerArgument,
    InvalidPermission,
    InvalidQueueArgument,
    InvalidQueueProperty,
    InvalidStreamOffset,
    InvalidUser,
    NotReadable,
    PublishRefused,
    QueueInequivalent,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueQuarantined,
    QueueStopped,
    QueueUnreadable,
    TooManyGroups,
    UserExists,
    UserNotFound,
    VhostAccessRefused,
    VhostNotFound,
)
from vhosts.group_expiry import GroupExpiry
from vhosts.group_options import GROUP, GroupOptions, wanted_group
from vhosts.loopback import may_connect_from
from vhosts.password import PasswordVerifier
from vhosts.permission import FULL_PERMISSION, Permission, Verb
from vhosts.permission_book import PermissionBook, ResourceKind
from vhosts.permission_cache import PermissionCache
from vhosts.queue import Queue
from vhosts.queue_partition import QueuePartition
from vhosts.queue_properties import QueueProperties
from vhosts.topology_record import partition_names
from vhosts.user import User
from vhosts.user_directory import UserDirectory
from vhosts.vhost import Durable, VirtualHost, server_name
from vhosts.vhost_directory import VhostDirectory

__all__ = [
    "CREDIT_UNLIMITED",
    "FULL_PERMISSION",
    "GROUP",
    "AccessRefused",
    "AuthenticationBusy",
    "AuthenticationRefused",
    "Consumer",
    "ConsumerGroup",
    "ConsumptionRefused",
    "Delivery",
    "DeliverySource",
    "Durable",
    "GetRefused",
    "GroupExpiry",
    "GroupOptions",
    "InvalidConsumerArgument",
    "InvalidPermission",
    "InvalidQueueArgument",
    "InvalidQueueProperty",
    "InvalidStreamOffset",
    "InvalidUser",
    "NotReadable",
    "PasswordVerifier",
    "Permission",
    "PermissionBook",
    "PermissionCache",
    "PublishRefused",
    "Queue",
    "QueueInUse",
    "QueueInequivalent",
    "QueueLocked",
    "QueueNotEmpty",
    "QueuePartition",
    "QueueProperties",
    "QueueQuarantined",
    "QueueStopped",
    "QueueUnreadable",
    "ResourceKind",
    "TooManyGroups",
    "User",
    "UserDirectory",
    "UserExists",
    "UserNotFound",
    "Verb",
    "VhostAccessRefused",
    "VhostDirectory",
    "VhostNotFound",
    "VirtualHost",
    "may_connect_from",
    "partition_names",
    "server_name",
    "wanted_group",
]
