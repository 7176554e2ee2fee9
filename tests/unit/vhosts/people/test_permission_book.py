import pytest

from routelog.vhosts.errors import AccessRefused, VhostAccessRefused
from routelog.vhosts.people.permission_book import PermissionBook, ResourceKind
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
