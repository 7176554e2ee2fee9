"""Definitions in memory are at any time those that a start finds in the store."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from unit.vhosts.people.test_user_directory import DirectWriter, fake_hash

from routelog.log_backend import (
    Change,
    MetadataCorrupt,
    MetadataStore,
    MetadataUnavailable,
    MetadataWriter,
)
from routelog.vhosts import (
    InvalidPermission,
    ParameterNotFound,
    Permission,
    TopicPermission,
    User,
    UserDirectory,
    UserNotFound,
)
from routelog.vhosts.arguments.policy import Policy
from routelog.vhosts.stored.global_parameters import GlobalParameters
from routelog.vhosts.stored.kept_definitions import EXCHANGES, PARAMETERS, KeptDefinitions
from routelog.vhosts.stored.policy_book import PolicyBook
from routelog.vhosts.stored.policy_record import policy_change
from routelog.vhosts.stored.stored_definitions import StoredDefinitions, key_names
from routelog.vhosts.stored.topology_record import record_key

NAMES = ("a", "b/c", "d%2F e", "ü")
STEPS = 200

Step = Callable[[Any, random.Random], Awaitable[object]]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[MetadataStore]:
    opened = MetadataStore.open(tmp_path / "metadata")
    yield opened
    opened.close()


class NotingWriter(DirectWriter):
    """Notes what was submitted last."""

    noted: Sequence[Change] = ()

    def submit(self, changes: Sequence[Change]) -> "asyncio.Future[int]":
        """See `MetadataWriter`."""
        self.noted = changes
        return super().submit(changes)


async def change_users(users: UserDirectory, chance: random.Random) -> None:
    name, vhost, exchange = (chance.choice(NAMES) for _ in range(3))
    what = chance.randrange(9)
    if what < 3:
        await users.put_user(User(name, f"{what}", ("management",) * (what % 2)))
    elif what == 3:
        await users.delete_user(name)
    elif what == 4:
        await users.set_permissions(name, vhost, Permission(f"^{exchange}", "", ".*"))
    elif what == 5:
        await users.clear_permissions(name, vhost)
    elif what == 6:
        topic = TopicPermission(exchange, "^x", ".*")
        await users.set_topic_permission(name, vhost, topic)
    elif what == 7:
        await users.clear_topic_permissions(name, vhost, chance.choice((None, exchange)))
    else:
        await users.set_limits(name, {"max-channels": 3} if chance.random() < 0.5 else {})
        if chance.random() < 0.2:
            await users.clear_vhost(vhost)


def users_of(users: UserDirectory) -> object:
    book = users.permissions
    return {
        user: (
            book.of_user(user.name),
            {
                vhost: {name: rule.permission for name, rule in rules.items()}
                for vhost, rules in book.topics_of_user(user.name).items()
            },
            users.limits(user.name),
        )
        for user in users.users()
    }


async def change_parameters(parameters: GlobalParameters, chance: random.Random) -> None:
    name = chance.choice(NAMES)
    if chance.random() < 0.6:
        await parameters.put(name, {"value": chance.randrange(5)})
    else:
        await parameters.delete(name)


async def change_kept(kept: KeptDefinitions, chance: random.Random) -> None:
    name, component = chance.choice(NAMES), chance.choice(NAMES)
    what = chance.randrange(4)
    if what == 0:
        await kept.put(PARAMETERS, {"component": component, "name": name, "value": 1})
    elif what == 1:
        await kept.put(EXCHANGES, {"name": name, "type": "x-strange"})
    elif what == 2:
        await kept.delete_exchange(name)
    else:
        await kept.delete_parameter(component, name)


async def change_policies(book: PolicyBook, chance: random.Random) -> None:
    is_operator = chance.random() < 0.3
    policy = Policy(
        chance.choice(NAMES), "^q", {"max-length": 1}, chance.randrange(3), is_operator=is_operator
    )
    is_there = policy.name in {each.name for each in book.all(operator=is_operator)}
    await book.change(policy_change("v", policy, deleted=is_there and chance.random() < 0.5))


@pytest.mark.parametrize(
    ("make", "step", "contents"),
    [
        (lambda writer: UserDirectory(writer, fake_hash), change_users, users_of),
        (GlobalParameters, change_parameters, GlobalParameters.all),
        (
            lambda writer: KeptDefinitions("b/c", writer),
            change_kept,
            lambda kept: {
                each: sorted(map(str, kept.all(each))) for each in (PARAMETERS, EXCHANGES)
            },
        ),
        (
            lambda writer: PolicyBook("v", writer),
            change_policies,
            lambda book: (book._ranked, book.all(operator=True), book.all(operator=False)),
        ),
    ],
    ids=["users", "parameters", "kept", "policies"],
)
async def test_memory_is_what_a_start_finds(
    store: MetadataStore,
    make: Callable[[MetadataWriter], StoredDefinitions],
    step: Step,
    contents: Callable[[Any], object],
) -> None:
    writer, chance = NotingWriter(store), random.Random(5)
    definitions, seen = make(cast(Any, writer)), set[str]()
    for _ in range(STEPS):
        with suppress(UserNotFound, ParameterNotFound, InvalidPermission):
            await step(definitions, chance)
        for each in writer.noted:  # once more
            definitions.apply(each)
        started = make(cast(Any, writer))
        started.load(store)
        assert contents(definitions) == contents(started)
        seen.add(str(contents(started)))
    assert len(seen) > 10


class FullDisk:
    """Refuses everything."""

    def check(self) -> None:
        raise MetadataUnavailable("full")

    def submit(self, changes: object) -> Any:
        raise MetadataUnavailable("full")


async def test_what_cannot_be_stored_is_not_carried_out() -> None:
    parameters = GlobalParameters(FullDisk())
    with pytest.raises(MetadataUnavailable):
        await parameters.put("a", 1)
    assert parameters.all() == {}


def test_what_cannot_be_read_ends_the_start(store: MetadataStore) -> None:
    store.apply([Change(record_key("global-parameters", "a"), b"{")])
    with pytest.raises(MetadataCorrupt, match="global-parameters/a"):
        GlobalParameters(DirectWriter(store)).load(store)


def test_a_key_gives_its_names_back() -> None:
    assert key_names(record_key("queues", *NAMES)) == list(NAMES)
