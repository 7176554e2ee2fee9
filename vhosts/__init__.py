"""Virtual hosts: queues, consumers, policies, users and permissions."""

from vhosts.consumer import CREDIT_UNLIMITED, Consumer
from vhosts.delivery import Delivery, DeliverySource
from vhosts.errors import (
    AccessRefused,
    AuthenticationBusy,
    AuthenticationRefused,
    ConsumptionRefused,
    InvalidPermission,
    InvalidQueueArgument,
    InvalidQueueProperty,
    InvalidStreamOffset,
    InvalidUser,
    NotReadable,
    QueueInequivalent,
    QueueInUse,
    QueueLocked,
    QueueNotEmpty,
    QueueQuarantined,
    UserExists,
    UserNotFound,
    VhostAccessRefused,
    VhostNotFound,
)
from vhosts.loopback import may_connect_from
from vhosts.password import PasswordVerifier
from vhosts.permission import FULL_PERMISSION, Permission, Verb
from vhosts.permission_book import PermissionBook, ResourceKind
from vhosts.permission_cache import PermissionCache
from vhosts.queue import Queue, QueueProperties
from vhosts.queue_partition import QueuePartition
from vhosts.topology_record import partition_names
from vhosts.user import User
from vhosts.user_directory import UserDirectory
from vhosts.vhost import Durable, VirtualHost
from vhosts.vhost_directory import VhostDirectory

__all__ = [
    "CREDIT_UNLIMITED",
    "FULL_PERMISSION",
    "AccessRefused",
    "AuthenticationBusy",
    "AuthenticationRefused",
    "Consumer",
    "ConsumptionRefused",
    "Delivery",
    "DeliverySource",
    "Durable",
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
    "Queue",
    "QueueInUse",
    "QueueInequivalent",
    "QueueLocked",
    "QueueNotEmpty",
    "QueuePartition",
    "QueueProperties",
    "QueueQuarantined",
    "ResourceKind",
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
]
