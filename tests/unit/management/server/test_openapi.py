"""The table of routes, and the document that is made from it."""

import re
from collections import Counter

from routelog.management.server.openapi import openapi_document
from routelog.management.server.routes import ROUTES


def test_no_two_routes_answer_the_same() -> None:
    shapes = Counter((route.method, re.sub(r"\{\w+", "{", route.path)) for route in ROUTES)
    assert [shape for shape, count in shapes.items() if count > 1] == []


def test_get_answers_head_and_nothing_else_does() -> None:
    for route in ROUTES:
        assert route.methods == (
            (route.method, "HEAD") if route.method == "GET" else (route.method,)
        )


def test_the_document_has_every_route_with_its_parameters_and_need() -> None:
    document = openapi_document(ROUTES, "0.1")
    assert document["info"]["version"] == "0.1"
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len(operations) == len(ROUTES)
    assert len({each["operationId"] for each in operations}) == len(ROUTES)
    for path, methods in document["paths"].items():
        assert path.startswith("/api/")
        for operation in methods.values():
            named = [each["name"] for each in operation["parameters"]]
            assert named == re.findall(r"\{(\w+)\}", path)
            assert operation["summary"].endswith((".", ":"))
    put = document["paths"]["/api/queues/{vhost}/{name}"]["put"]
    assert put["description"] == "Needs the tag management, or one that includes it."
