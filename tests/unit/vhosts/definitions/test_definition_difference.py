"""The way from one state of the definitions to another one."""

from routelog.log_backend import Change
from routelog.vhosts import DefinitionState, definition_difference

PREFIXES = (
    b"users/",
    b"next-partition",
    b"exchanges/",
    b"queues/",
    b"bindings/",
    b"transient-bindings/",
)
X, Y = b"exchanges/v/x", b"exchanges/v/y"
Q = b"queues/v/q"
OF_X = b"bindings/v/x/queue/q/key/a"
TO_X = b"transient-bindings/v/y/exchange/x/key/a"
OF_Y = b"bindings/v/y/queue/q/key/a"
ELSEWHERE = b"bindings/w/x/queue/q/key/a"
KNOWN = dict.fromkeys((X, Y, Q, OF_X, OF_Y, ELSEWHERE, TO_X), b"1")


def state(records: dict[bytes, bytes]) -> DefinitionState:
    """A state with these records."""
    found = DefinitionState(PREFIXES)
    found.keep(Change(key, value) for key, value in records.items())
    return found


def changes(wanted: dict[bytes, bytes], before: dict[bytes, bytes] = KNOWN) -> list[Change]:
    """What leads from one state to another one; its owner carries out each step."""
    known, found = state(before), list[Change]()
    for step in definition_difference(known, state(wanted)):
        known.keep(step)
        found += step
    assert dict(known.records()) == wanted
    return found


def test_nothing_leads_from_a_state_to_itself() -> None:
    assert changes(dict(KNOWN)) == []


def test_what_depends_on_other_records_comes_behind_them_and_goes_before() -> None:
    backwards = dict(reversed(KNOWN.items()))
    order = [Y, X, Q, ELSEWHERE, OF_Y, OF_X, TO_X]
    assert [each.key for each in changes(backwards, {})] == order
    assert [each.key for each in changes({Y: b"1"})] == [TO_X, OF_X, OF_Y, ELSEWHERE, Q, X]


def test_what_is_new_or_another_one_is_put() -> None:
    wanted = {**KNOWN, Q: b"2", b"users/u": b"1", b"next-partition": b"7"}
    assert changes(wanted) == [
        Change(b"users/u", b"1"),
        Change(b"next-partition", b"7"),
        Change(Q, b"2"),
    ]


def test_another_exchange_of_the_name_has_its_bindings_anew() -> None:
    assert changes({**KNOWN, X: b"2"}) == [
        Change(TO_X, None),
        Change(OF_X, None),
        Change(X, None),
        Change(X, b"2"),
        Change(OF_X, b"1"),
        Change(TO_X, b"1"),
    ]


def test_a_queue_that_is_there_again_has_its_bindings_anew() -> None:
    left = {key: value for key, value in KNOWN.items() if key != Q}
    assert changes(dict(KNOWN), left) == [
        Change(OF_X, None),
        Change(OF_Y, None),
        Change(Q, b"1"),
        Change(OF_X, b"1"),
        Change(OF_Y, b"1"),
    ]


def test_another_binding_takes_the_place_of_the_first_one() -> None:
    assert changes({**KNOWN, OF_X: b"2"}) == [Change(OF_X, None), Change(OF_X, b"2")]
