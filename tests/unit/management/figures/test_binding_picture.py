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
    for line in picture.lines[1:]:
        assert line.curve.startswith(f"M{own.x + BOX_WIDTH} {own.middle}C")
    for line in picture.lines:
        assert line.x1 < line.key_x < line.x2
    for box in picture.boxes:
        assert box.x + BOX_WIDTH < picture.width
        assert box.middle < picture.height


def test_bindings_between_the_same_two_are_one_line() -> None:
    picture = binding_picture("x", [], [row("x", "q", "a"), row("x", "q", "b")])
    (line,) = picture.lines
    assert line.keys == "a, b"
    assert picture.drawn == 2
    assert len(picture.boxes) == 2


def test_what_exchanges_lead_to_stands_one_column_further() -> None:
    leaving = [row("x", "e", "", "exchange"), row("x", "q", "")]
    behind = {"e": [row("e", "a", "1"), row("e", "b", "2")]}
    picture = binding_picture("x", [], leaving, behind)
    places = {each.name: each for each in picture.boxes}
    assert places["a"].x == places["b"].x == places["e"].x + BOX_WIDTH + LINE_WIDTH
    assert places["a"].y < places["e"].y < places["b"].y < places["q"].y
    assert [each.lit for each in picture.lines] == [False] * 4


def test_the_way_of_a_tried_message_is_lit() -> None:
    leaving = [row("x", "e", "k", "exchange"), row("x", "q", "a"), row("x", "q", "b")]
    behind = {"e": [row("e", "a", ""), row("e", "b", "")]}
    way = [("x", "e", "k"), ("e", "b", "")]
    picture = binding_picture("x", [], leaving, behind, way)
    assert {each.name for each in picture.boxes if each.lit} == {"x", "e", "b"}
    assert [each.lit for each in picture.lines] == [True, False, True, False]
    picture = binding_picture("x", [], leaving, behind, [("x", "q", "b")])
    assert [each.keys for each in picture.lines if each.lit] == ["a, b"]


def test_with_nothing_on_the_left_it_begins_with_the_exchange() -> None:
    picture = binding_picture("x", [], [row("x", "q", "")])
    assert picture.boxes[0].x < BOX_WIDTH
    assert len(binding_picture("x", [], []).boxes) == 1


def test_there_is_room_for_so_many_bindings_of_all_columns() -> None:
    coming = [row(f"a{at}", "x", "") for at in range(100)]
    leaving = [row("x", f"q{at}", "") for at in range(100)]
    picture = binding_picture("x", coming, leaving)
    assert len(picture.lines) == BINDINGS_MAX
    assert sum(line.x2 == picture.boxes[0].x for line in picture.lines) == BINDINGS_MAX // 2
    assert len(binding_picture("x", coming[:2], leaving).lines) == BINDINGS_MAX
    assert len(binding_picture("x", coming, leaving[:2]).lines) == BINDINGS_MAX
    behind = {"e": [row("e", f"q{at}", "") for at in range(100)]}
    picture = binding_picture("x", [], [row("x", "e", "", "exchange")], behind)
    assert len(picture.lines) == BINDINGS_MAX


def test_long_names_are_cut_and_whole_on_hover() -> None:
    (_, box) = binding_picture("x", [], [row("x", "q" * 100, "k" * 100)]).boxes
    assert box.label == "q" * 24 + "…"
    assert box.name == "q" * 100
