"""All users and their permissions, in memory and in the metadata store."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from routelog.log_backend import Change, MetadataCorrupt, MetadataWriter
from routelog.vhosts.arguments.limits import USER_LIMITS, Limits, checked_limits
from routelog.vhosts.errors import InvalidPermission, UserExists, UserNotFound
from routelog.vhosts.people.client_address import DEFAULT_PASSWORD, DEFAULT_USER
from routelog.vhosts.people.imported_password import hash_fault
from routelog.vhosts.people.permission_book import PermissionBook
from routelog.vhosts.queues.event_feed import TellEvent, tell_nobody
from routelog.vhosts.stored.permission import (
    FULL_PERMISSION,
    Permission,
    TopicPermission,
    TopicRule,
)
from routelog.vhosts.stored.stored_definitions import StoredDefinitions, key_names
from routelog.vhosts.stored.user import ADMINISTRATOR, IMPERSONATOR, User
from routelog.vhosts.stored.user_record import (
    PERMISSIONS_PREFIX,
    TOPIC_PERMISSIONS_PREFIX,
    USER_LIMITS_PREFIX,
    USERS_PREFIX,
    decode_permission,
    decode_topic_permission,
    decode_user,
    decode_user_limits,
    permission_change,
    permission_deletion,
    topic_permission_change,
    topic_permission_deletion,
    user_change,
    user_deletion,
    user_limits_change,
)

DEFAULT_VHOST = "/"

log = logging.getLogger(__name__)


class UserDirectory(StoredDefinitions):
    """The users of this node, and the `permissions` they have.

    Only this class changes `permissions`. Every method that
    changes something has changed memory before it first waits for the store, and returns when
    the change is durable. It raises MetadataUnavailable if the store fails: at once, with
    nothing changed, or after the wait, when memory is ahead of a store that takes no more.

    Attributes:
        on_deleted: called with the name of each user that is deleted.
        on_limits: called with the name of each user whose limits change, and these.
        tell: emits events.
        check_vhost: raises when there is no vhost of a name: the next one would have its permissions.
        hash_password: hashes off the event loop, such as `PasswordVerifier.hash`; it may raise
            AuthenticationBusy, which add_user and create_default_user pass on.
    """

    def __init__(
        self, writer: MetadataWriter, hash_password: Callable[[bytes], Awaitable[str]]
    ) -> None:
        super().__init__(
            writer, USERS_PREFIX, PERMISSIONS_PREFIX, TOPIC_PERMISSIONS_PREFIX, USER_LIMITS_PREFIX
        )
        self.permissions = PermissionBook()
        self.hash_password = hash_password
        self._users: dict[str, User] = {}
        self._limits: dict[str, Limits] = {}
        self.on_deleted: Callable[[str], None] = lambda name: None
        self.on_limits: Callable[[str, Limits], None] = lambda name, limits: None
        self.tell: TellEvent = tell_nobody
        self.check_vhost: Callable[[str], object] = lambda name: None

    def apply(self, change: Change) -> None:
        """See `StoredDefinitions`; a permission or limits of no user cannot be."""
        key, value = change.key, change.value
        if key.startswith(USERS_PREFIX):
            if value is None:
                (name,) = key_names(key)
                if self._users.pop(name, None) is not None:
                    self.on_deleted(name)
                self.permissions.remove_user(name)
                return
            user = decode_user(key, value)
            self._users[user.name] = user
            self.permissions.put_user(user.name, user.tags)
        elif key.startswith(PERMISSIONS_PREFIX):
            if value is None:
                vhost, name = key_names(key)
                self.permissions.remove(name, vhost)
                return
            name, vhost, permission = decode_permission(key, value)
            self._check_known(key, name)
            self.permissions.put(name, vhost, permission)
        elif key.startswith(TOPIC_PERMISSIONS_PREFIX):
            if value is None:
                vhost, name, exchange = key_names(key)
                self.permissions.remove_topic(name, vhost, exchange)
                return
            name, vhost, topic = decode_topic_permission(key, value)
            self._check_known(key, name)
            try:
                self.permissions.put_topic(name, vhost, topic)
            except InvalidPermission as error:
                raise MetadataCorrupt(f"{key!r}: {error}") from error
        elif value is None:
            (name,) = key_names(key)
            self._limits.pop(name, None)
            self.on_limits(name, {})
        else:
            name, limits = decode_user_limits(key, value)
            self._check_known(key, name)
            self._limits[name] = limits
            self.on_limits(name, limits)

    def _check_known(self, key: bytes, user: str) -> None:
        if user not in self._users:
            # If ignored, the next user of this name would get it.
            raise MetadataCorrupt(f"{key!r}: there is no user '{user}'")

    def impersonates(self, name: str) -> bool:
        """Whether the user may publish with the `user-id` of another user."""
        user = self._users.get(name)
        return user is not None and IMPERSONATOR in user.tags

    def find(self, name: str) -> User | None:
        """Return the user, or None."""
        return self._users.get(name)

    def get(self, name: str) -> User:
        """Return the user.

        Raises:
            UserNotFound: there is none of this name.
        """
        user = self._users.get(name)
        if user is None:
            raise UserNotFound(name)
        return user

    def users(self) -> list[User]:
        """Return all users by name."""
        return sorted(self._users.values(), key=lambda user: user.name)

    async def add_user(self, name: str, password: bytes, tags: tuple[str, ...] = ()) -> User:
        """Create a user without permissions; one with an empty password cannot log in with it.

        Raises:
            UserExists: the name is taken.
            InvalidUser: the name or a tag is not acceptable.
        """
        self._refuse_existing(name)
        User(name, "", tags)  # refuses a bad name before the password is hashed
        user = User(name, await self.hash_password(password), tags)
        self._refuse_existing(name)  # another call may have added the user meanwhile
        await self.put_user(user)
        return user

    async def put_user(self, user: User) -> None:
        """Create the user as given, with a hash made elsewhere, or replace the one of his name."""
        known = self._users.get(user.name)
        if fault := hash_fault(user.password_hash):
            log.warning("user '%s' cannot log in: %s", user.name, fault)
        durable = self.change(user_change(user))
        if known is None:
            self.tell("user.created", name=user.name)
        elif known.password_hash != user.password_hash:
            self.tell("user.password.changed", name=user.name)
        if known is None or known.tags != user.tags:
            self.tell("user.tags.set", name=user.name, tags=list(user.tags))
        await durable

    async def delete_user(self, name: str) -> None:
        """Delete the user and all his permissions in one step.

        Raises:
            UserNotFound: there is none of this name.
        """
        self.get(name)
        gone = [user_limits_change(name, {})]
        gone += [permission_deletion(name, vhost) for vhost in self.permissions.of_user(name)]
        for vhost in self.permissions.topics_of_user(name):
            gone += self._topic_deletions(name, vhost)
        durable = self.change(*gone, user_deletion(name))
        self.tell("user.deleted", name=name)
        await durable

    async def set_tags(self, name: str, tags: tuple[str, ...]) -> None:
        """Replace the user's tags.

        Raises:
            UserNotFound: there is none of this name.
            InvalidUser: a tag is not acceptable.
        """
        await self.put_user(replace(self.get(name), tags=tags))

    async def set_permissions(self, name: str, vhost: str, permission: Permission) -> None:
        """Set the user's permission in a virtual host.

        Raises:
            UserNotFound: there is none of this name.
            VhostNotFound: likewise.
        """
        self.get(name)
        self.check_vhost(vhost)
        durable = self.change(permission_change(name, vhost, permission))
        allowed = {verb: str(getattr(permission, verb)) for verb in ("configure", "write", "read")}
        self.tell("permission.created", user=name, vhost=vhost, **allowed)
        await durable

    async def clear_permissions(self, name: str, vhost: str) -> None:
        """Remove the user's permission in a virtual host, if he has one.

        Raises:
            UserNotFound: there is none of this name.
        """
        self.get(name)
        durable = self.change(permission_deletion(name, vhost))
        self.tell("permission.deleted", user=name, vhost=vhost)
        await durable

    async def clear_vhost(self, vhost: str, *deletion: Change) -> None:
        """Remove all permissions in a virtual host, in one step with the changes that delete it."""
        gone = [permission_deletion(name, vhost) for name in self.permissions.of_vhost(vhost)]
        for user in self.permissions.topic_users():
            gone += self._topic_deletions(user, vhost)
        durable = self._writer.submit([*gone, *deletion])
        for each in gone:
            self.apply(each)
        await durable

    async def set_topic_permission(
        self, name: str, vhost: str, permission: TopicPermission
    ) -> None:
        """Restrict the user to some keys of a topic exchange.

        Raises:
            UserNotFound: there is none of this name.
            VhostNotFound: likewise.
            InvalidPermission: a pattern is no regular expression.
        """
        self.get(name)
        self.check_vhost(vhost)
        TopicRule(permission, name, vhost)  # refuses a bad pattern before anything is written
        await self.change(topic_permission_change(name, vhost, permission))

    async def clear_topic_permissions(
        self, name: str, vhost: str, exchange: str | None = None
    ) -> None:
        """Remove the topic permission for one exchange, or all, if there are any.

        Raises:
            UserNotFound: there is none of this name.
        """
        self.get(name)
        await self.change(*self._topic_deletions(name, vhost, exchange))

    def _topic_deletions(self, user: str, vhost: str, only: str | None = None) -> list[Change]:
        exchanges = [each for each in self.permissions.topics(user, vhost) if only in (None, each)]
        return [topic_permission_deletion(user, vhost, exchange) for exchange in exchanges]

    def limits(self, name: str) -> Limits:
        """The user's limits by name; empty when there are none."""
        return self._limits.get(name, {})

    async def set_limits(self, name: str, values: Mapping[str, object]) -> None:
        """Replace the user's limits; an empty mapping lifts all.

        Raises:
            UserNotFound: there is none of this name.
            InvalidLimit: one is not known, or its value cannot be.
        """
        self.get(name)
        limits = checked_limits(USER_LIMITS, values)
        await self.change(user_limits_change(name, limits))

    async def create_default_user(
        self,
        name: str = DEFAULT_USER,
        password: bytes = DEFAULT_PASSWORD,
        vhost: str = DEFAULT_VHOST,
    ) -> bool:
        """Create an administrator with all permissions in `vhost`, if there is no user at all.

        Returns:
            Whether the user was created.

        Guarantees:
            After a crash, both user and permission exist, or neither.
        """
        if self._users:
            return False
        password_hash = await self.hash_password(password)
        user = User(name, password_hash, (ADMINISTRATOR,))
        if self._users:  # a user was added meanwhile
            return False
        await self.change(user_change(user), permission_change(name, vhost, FULL_PERMISSION))
        return True

    def _refuse_existing(self, name: str) -> None:
        if name in self._users:
            raise UserExists(name)
