"""The HTTP API against its own OpenAPI document: no fault of ours, and no answer outside its schema.

`ROUTELOG_TEST_API_EXAMPLES` requests are made of each operation, such as the document describes, and such as
it does not. `make api` makes many.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scenarios.management.openapi_world import World, openapi_world, strict
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from routelog.management.server.openapi import openapi_document
from routelog.management.server.routes import ROUTES

pytestmark = pytest.mark.differs_from_rabbitmq("its document")

EXAMPLES = int(os.environ.get("ROUTELOG_TEST_API_EXAMPLES", "1"))
METHODS = ("get", "put", "post", "delete")  # what is there is looked at before it goes


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with openapi_world(tmp_path_factory.mktemp("openapi")) as world:
        yield world


@cache
def described() -> Any:
    return schemathesis.openapi.from_dict(strict(openapi_document(ROUTES, "0")))


def operations() -> list[tuple[str, str]]:
    paths = openapi_document(ROUTES, "0")["paths"]
    found = [(method, path) for path, methods in paths.items() for method in methods]
    # Without their vhost and connection, others would have nothing to do.
    last = ("/api/vhosts/{name}", "/api/connections")
    return sorted(found, key=lambda each: (METHODS.index(each[0]), each[1].startswith(last)))


@pytest.mark.parametrize("named", operations(), ids="_".join)
def test_answers_are_as_the_document_says(world: World, named: tuple[str, str]) -> None:
    method, path = named
    operation = described()[path][method.upper()]
    checks = [status_code_conformance, content_type_conformance, response_schema_conformance]
    if method == "get":
        answer = world.get(path)
        assert answer.status_code == 200 or path.endswith("/attempts/{node}"), answer.text
        operation.validate_response(answer)
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    cases = st.one_of([operation.as_strategy(generation_mode=mode) for mode in modes])

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=cases, is_known=st.sampled_from((True, True, False)))
    def ask(case: Any, is_known: bool) -> None:
        if is_known and case.path_parameters:
            case.path_parameters.update(world.parts(path))
        for name, value in (case.path_parameters or {}).items():
            case.path_parameters[name] = (
                value or "empty"
            )  # else it is the path of another operation
        if path == "/api/backup" and isinstance(case.body, dict):
            case.body.pop("target", None)  # it would write there
        answer = case.call(base_url=world.url, session=world.session)
        wanted = checks[:2] if "columns" in (case.query or {}) else checks
        case.validate_response(answer, checks=wanted)

    ask()
