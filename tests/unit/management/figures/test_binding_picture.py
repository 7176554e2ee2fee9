"""The picture of an exchange's bindings."""

from typing import Any

from routelog.management.figures.binding_picture import (
    BINDINGS_MAX,
    BOX_WIDTH,
    LINE_WIDTH,
    binding_picture,
)


def row(source: str, destination: str, key: str, kind: str = "queue") -> dict[str, Any]:
    return {
        "source": source,
        "destination": destination,
        "destination_type": kind,
        "routing_key": key,
    }


def test_what_leads_to_it_stands_left_and_where_it_leads_right() -> None:
    picture = binding_picture(
        "x", [row("a", "x", "1")], [row("x", "q", "2"), row("x", "e", "3", "exchange")]
    )
    own, source, queue, exchange = picture.boxes
    assert [each.name for each in picture.boxes] == ["x", "a", "q", "e"]
    assert [each.kind for each in picture.boxes] == ["exchange", "exchange", "queue", "exchange"]
    assert source.x + BOX_WIDTH + LINE_WIDTH == own.x
    assert own.x + BOX_WIDTH + LINE_WIDTH == queue.x == exchange.x
    assert [(each.key, each.x1, each.x2) for each in picture.lines] == [
        ("1", source.x + BOX_WIDTH, own.x),
        ("2", own.x + BOX_WIDTH, queue.x),
        ("3", own.x + BOX_WIDTH, exchange.x),
    ]
    assert {each.y1 for each in picture.lines[1:]} == {own.middle}
    for line in picture.lines:
        assert line.x1 < line.key_x < line.x2
    for box in picture.boxes:
        assert box.x + BOX_WIDTH < picture.width
        assert box.middle < picture.height


def test_with_nothing_on_the_left_it_begins_with_the_exchange() -> None:
    picture = binding_picture("x", [], [row("x", "q", "")])
    assert picture.boxes[0].x < BOX_WIDTH
    assert len(binding_picture("x", [], []).boxes) == 1


def test_there_is_room_for_so_many_bindings_of_both_sides() -> None:
    coming = [row(f"a{at}", "x", "") for at in range(100)]
    leaving = [row("x", f"q{at}", "") for at in range(100)]
    picture = binding_picture("x", coming, leaving)
    assert len(picture.lines) == BINDINGS_MAX
    assert sum(line.x2 == picture.boxes[0].x for line in picture.lines) == BINDINGS_MAX // 2
    assert len(binding_picture("x", coming[:2], leaving).lines) == BINDINGS_MAX
    assert len(binding_picture("x", coming, leaving[:2]).lines) == BINDINGS_MAX


def test_long_names_are_cut() -> None:
    (_, box) = binding_picture("x", [], [row("x", "q" * 100, "k" * 100)]).boxes
    assert box.name == "q" * 27 + "…"
