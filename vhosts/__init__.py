"""Virtual hosts: queues, consumers, policies, users and permissions."""

from vhosts import errors
from vhosts.consumer import CREDIT_UNLIMITED, Consumer
from vhosts.delivery import Delivery
from vhosts.loopback import may_connect_from
from vhosts.password import PasswordVerifier
from vhosts.permission import FULL_PERMISSION, Permission, Verb
from vhosts.permission_book import PermissionBook, ResourceKind
from vhosts.permission_cache import PermissionCache
from vhosts.queue import Queue, QueueProperties
from vhosts.queue_partition import QueuePartition
from vhosts.user import User
from vhosts.user_directory import UserDirectory
from vhosts.vhost import Durable, VirtualHost
from vhosts.vhost_directory import VhostDirectory

__all__ = [
    "CREDIT_UNLIMITED",
    "FULL_PERMISSION",
    "Consumer",
    "Delivery",
    "Durable",
    "PasswordVerifier",
    "Permission",
    "PermissionBook",
    "PermissionCache",
    "Queue",
    "QueuePartition",
    "QueueProperties",
    "ResourceKind",
    "User",
    "UserDirectory",
    "Verb",
    "VhostDirectory",
    "VirtualHost",
    "errors",
    "may_connect_from",
]
