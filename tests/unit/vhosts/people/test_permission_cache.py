import pytest

from routelog.vhosts.errors import AccessRefused
from routelog.vhosts.people.permission_book import PermissionBook, ResourceKind
from routelog.vhosts.people.permission_cache import ENTRIES_MAX, PermissionCache
from routelog.vhosts.stored.permission import FULL_PERMISSION, Permission, Verb

QUEUE, EXCHANGE = ResourceKind.QUEUE, ResourceKind.EXCHANGE


class CountingBook(PermissionBook):
    questions = 0

    def authorize(self, user: str, vhost: str, kind: ResourceKind, name: str, verb: Verb) -> None:
        self.questions += 1
        super().authorize(user, vhost, kind, name, verb)


@pytest.fixture
def book() -> CountingBook:
    book = CountingBook()
    book.put("alice", "/", Permission("", "orders", "orders"))
    return book


@pytest.fixture
def cache(book: CountingBook) -> PermissionCache:
    return PermissionCache(book, "alice", "/")


def test_the_same_question_is_asked_once(book: CountingBook, cache: PermissionCache) -> None:
    for _ in range(3):
        cache.authorize(QUEUE, "orders", Verb.READ)
    assert book.questions == 1


def test_questions_differ_by_kind_name_and_verb(book: CountingBook, cache: PermissionCache) -> None:
    cache.authorize(QUEUE, "orders", Verb.READ)
    cache.authorize(QUEUE, "orders", Verb.WRITE)
    cache.authorize(EXCHANGE, "orders", Verb.READ)
    cache.authorize(QUEUE, "orders2", Verb.READ)
    assert book.questions == 4


def test_a_refusal_is_asked_again(book: CountingBook, cache: PermissionCache) -> None:
    for _ in range(2):
        with pytest.raises(AccessRefused):
            cache.authorize(QUEUE, "orders", Verb.CONFIGURE)
    assert book.questions == 2


def test_a_change_takes_effect_at_the_next_question(
    book: CountingBook, cache: PermissionCache
) -> None:
    cache.authorize(QUEUE, "orders", Verb.READ)
    book.put("alice", "/", Permission("", "", ""))
    with pytest.raises(AccessRefused):
        cache.authorize(QUEUE, "orders", Verb.READ)
    book.put("alice", "/", FULL_PERMISSION)
    cache.authorize(QUEUE, "orders", Verb.READ)


def test_a_user_deleted_and_created_again_inherits_nothing(
    book: CountingBook, cache: PermissionCache
) -> None:
    cache.authorize(QUEUE, "orders", Verb.READ)
    book.remove_user("alice")
    with pytest.raises(AccessRefused):
        cache.authorize(QUEUE, "orders", Verb.READ)
    book.put_user("alice", ())
    with pytest.raises(AccessRefused):
        cache.authorize(QUEUE, "orders", Verb.READ)


def test_the_cache_is_bounded_and_lets_go_of_the_oldest(
    book: CountingBook, cache: PermissionCache
) -> None:
    for number in range(ENTRIES_MAX + 1):
        cache.authorize(QUEUE, f"orders{number}", Verb.READ)
    asked = book.questions
    cache.authorize(QUEUE, f"orders{ENTRIES_MAX}", Verb.READ)
    cache.authorize(QUEUE, "orders1", Verb.READ)
    assert book.questions == asked
    cache.authorize(QUEUE, "orders0", Verb.READ)
    assert book.questions == asked + 1
