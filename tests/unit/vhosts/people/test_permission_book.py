import pytest

from routelog.vhosts.errors import AccessRefused, VhostAccessRefused
from routelog.vhosts.people.permission_book import (
    ENTRIES_MAX,
    PermissionBook,
    PermissionCache,
    ResourceKind,
)
from routelog.vhosts.stored.permission import FULL_PERMISSION, Permission, Verb

QUEUE, EXCHANGE = ResourceKind.QUEUE, ResourceKind.EXCHANGE


@pytest.fixture
def book() -> PermissionBook:
    book = PermissionBook()
    book.put("alice", "/", Permission("^conf", "^writ", "^read"))
    return book


@pytest.mark.parametrize(
    ("verb", "name"), [(Verb.CONFIGURE, "conf"), (Verb.WRITE, "writ"), (Verb.READ, "read")]
)
def test_a_verb_is_allowed_where_its_pattern_matches(
    book: PermissionBook, verb: Verb, name: str
) -> None:
    book.authorize("alice", "/", QUEUE, name, verb)
    with pytest.raises(AccessRefused):
        book.authorize("alice", "/", QUEUE, "other", verb)


@pytest.mark.parametrize(
    ("user", "vhost", "kind", "name", "verb", "text"),
    [
        ("u", "/", QUEUE, "q", Verb.READ, "read access to queue 'q' in vhost '/'"),
        ("u", "v", EXCHANGE, "e", Verb.WRITE, "write access to exchange 'e' in vhost 'v'"),
        ("u", "/", EXCHANGE, "", Verb.WRITE, "write access to exchange 'amq.default' in vhost '/'"),
        ("u", "/", QUEUE, "q", Verb.CONFIGURE, "configure access to queue 'q' in vhost '/'"),
    ],
)
def test_a_refusal_reads_as_in_rabbitmq(
    user: str, vhost: str, kind: ResourceKind, name: str, verb: Verb, text: str
) -> None:
    with pytest.raises(AccessRefused) as refusal:
        PermissionBook().authorize(user, vhost, kind, name, verb)
    assert str(refusal.value) == f"{text} refused for user 'u'"


def test_the_default_exchange_is_known_to_patterns_by_its_long_name() -> None:
    book = PermissionBook()
    book.put("u", "/", Permission("", "^amq\\.default$", ""))
    book.authorize("u", "/", EXCHANGE, "", Verb.WRITE)
    with pytest.raises(AccessRefused):
        book.authorize("u", "/", QUEUE, "", Verb.WRITE)


def test_a_permission_is_of_one_user_in_one_vhost(book: PermissionBook) -> None:
    for user, vhost in [("bob", "/"), ("alice", "other"), ("ALICE", "/"), ("alice", "")]:
        with pytest.raises(AccessRefused):
            book.authorize(user, vhost, QUEUE, "read", Verb.READ)


def test_any_verb_will_do_to_see_that_something_is_there(book: PermissionBook) -> None:
    for name in ("conf", "writ", "read"):
        book.authorize_any("alice", "/", QUEUE, name)
    with pytest.raises(AccessRefused, match=r"^access to queue 'x' in vhost '/' refused for user"):
        book.authorize_any("alice", "/", QUEUE, "x")
    with pytest.raises(AccessRefused):
        book.authorize_any("bob", "/", QUEUE, "read")


def test_an_entry_that_allows_nothing_still_opens_the_vhost() -> None:
    book = PermissionBook()
    book.put("u", "/", Permission("", "", ""))
    book.authorize_vhost("u", "/")
    with pytest.raises(VhostAccessRefused, match="access to vhost 'v' refused for user 'u'"):
        book.authorize_vhost("u", "v")


def test_every_change_gives_the_user_another_revision(book: PermissionBook) -> None:
    seen = {book.revision("alice")}
    book.put("alice", "/", FULL_PERMISSION)
    seen.add(book.revision("alice"))
    book.remove("alice", "/")
    seen.add(book.revision("alice"))
    book.put_user("alice", ())
    seen.add(book.revision("alice"))
    book.remove_user("alice")
    seen.add(book.revision("alice"))
    book.put("alice", "/", FULL_PERMISSION)
    seen.add(book.revision("alice"))
    assert len(seen) == 6


def test_a_change_of_one_user_leaves_the_others_revision(book: PermissionBook) -> None:
    before = book.revision("alice")
    book.put("bob", "/", FULL_PERMISSION)
    book.remove("bob", "/")
    assert book.revision("alice") == before


def test_removing_tells_what_there_was(book: PermissionBook) -> None:
    book.put("alice", "v", FULL_PERMISSION)
    assert set(book.of_vhost("v")) == {"alice"}
    assert not book.remove("alice", "unknown")
    assert not book.remove("bob", "/")
    assert book.remove("alice", "v")
    assert book.of_vhost("v") == {}
    book.remove_user("alice")
    assert book.of_user("alice") == {}
    with pytest.raises(VhostAccessRefused):
        book.authorize_vhost("alice", "/")


def test_the_log_is_read_with_a_tag_only() -> None:
    book = PermissionBook()
    book.put("u", "/", FULL_PERMISSION)
    for tags in ((), ("management",), ("policymaker", "impersonator")):
        book.put_user("u", tags)
        with pytest.raises(AccessRefused):
            book.authorize("u", "/", EXCHANGE, "amq.rabbitmq.log", Verb.READ)
        book.authorize("u", "/", QUEUE, "amq.rabbitmq.log", Verb.READ)
        book.authorize("u", "/", EXCHANGE, "amq.rabbitmq.event", Verb.READ)
    for tag in ("monitoring", "administrator"):
        book.put_user("u", (tag,))
        book.authorize("u", "/", EXCHANGE, "amq.rabbitmq.log", Verb.READ)
    book.put("u", "/", Permission(".*", ".*", "^mine"))
    with pytest.raises(AccessRefused):  # the tag opens nothing by itself
        book.authorize("u", "/", EXCHANGE, "amq.rabbitmq.log", Verb.READ)


class CountingBook(PermissionBook):
    questions = 0

    def authorize(self, user: str, vhost: str, kind: ResourceKind, name: str, verb: Verb) -> None:
        self.questions += 1
        super().authorize(user, vhost, kind, name, verb)


@pytest.fixture
def counting_book() -> CountingBook:
    counting_book = CountingBook()
    counting_book.put("alice", "/", Permission("", "orders", "orders"))
    return counting_book


@pytest.fixture
def cache(counting_book: CountingBook) -> PermissionCache:
    return PermissionCache(counting_book, "alice", "/")


def test_the_same_question_is_asked_once(
    counting_book: CountingBook, cache: PermissionCache
) -> None:
    for _ in range(3):
        cache.authorize(QUEUE, "orders", Verb.READ)
    assert counting_book.questions == 1


def test_questions_differ_by_kind_name_and_verb(
    counting_book: CountingBook, cache: PermissionCache
) -> None:
    cache.authorize(QUEUE, "orders", Verb.READ)
    cache.authorize(QUEUE, "orders", Verb.WRITE)
    cache.authorize(EXCHANGE, "orders", Verb.READ)
    cache.authorize(QUEUE, "orders2", Verb.READ)
    assert counting_book.questions == 4


def test_a_refusal_is_asked_again(counting_book: CountingBook, cache: PermissionCache) -> None:
    for _ in range(2):
        with pytest.raises(AccessRefused):
            cache.authorize(QUEUE, "orders", Verb.CONFIGURE)
    assert counting_book.questions == 2


def test_a_change_takes_effect_at_the_next_question(
    counting_book: CountingBook, cache: PermissionCache
) -> None:
    cache.authorize(QUEUE, "orders", Verb.READ)
    counting_book.put("alice", "/", Permission("", "", ""))
    with pytest.raises(AccessRefused):
        cache.authorize(QUEUE, "orders", Verb.READ)
    counting_book.put("alice", "/", FULL_PERMISSION)
    cache.authorize(QUEUE, "orders", Verb.READ)


def test_a_user_deleted_and_created_again_inherits_nothing(
    counting_book: CountingBook, cache: PermissionCache
) -> None:
    cache.authorize(QUEUE, "orders", Verb.READ)
    counting_book.remove_user("alice")
    with pytest.raises(AccessRefused):
        cache.authorize(QUEUE, "orders", Verb.READ)
    counting_book.put_user("alice", ())
    with pytest.raises(AccessRefused):
        cache.authorize(QUEUE, "orders", Verb.READ)


def test_the_cache_is_bounded_and_lets_go_of_the_oldest(
    counting_book: CountingBook, cache: PermissionCache
) -> None:
    for number in range(ENTRIES_MAX + 1):
        cache.authorize(QUEUE, f"orders{number}", Verb.READ)
    asked = counting_book.questions
    cache.authorize(QUEUE, f"orders{ENTRIES_MAX}", Verb.READ)
    cache.authorize(QUEUE, "orders1", Verb.READ)
    assert counting_book.questions == asked
    cache.authorize(QUEUE, "orders0", Verb.READ)
    assert counting_book.questions == asked + 1
