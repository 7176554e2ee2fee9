"""The OpenAPI document of the HTTP API, made from the table of routes."""

import re
from collections.abc import Iterable

from routelog.management.calls.answer import Row
from routelog.management.server.routes import Route

_PARAMETER = re.compile(r"\{(\w+)(?::[^}]*)?\}")


def openapi_document(routes: Iterable[Route], version: str) -> Row:
    """Paths, methods and who may call them; each handler's docstring is the summary."""
    paths: dict[str, Row] = {}
    for route in routes:
        path = "/api" + _PARAMETER.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "RouteLog management", "version": version},
        "components": {"securitySchemes": {"basic": {"type": "http", "scheme": "basic"}}},
        "security": [{"basic": []}],
        "paths": paths,
    }


def _operation(route: Route) -> Row:
    summary = (route.handler.__doc__ or "").strip().splitlines()[0]
    named = {"in": "path", "required": True, "schema": {"type": "string"}}
    answers: Row = {
        "4XX": {"description": 'refused: {"error": ..., "reason": ...}'},
        "2XX": {"description": "done"},
    }
    return {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "summary": summary,
        "description": f"Needs the tag {route.need.value}, or one that includes it.",
        "parameters": [{"name": name, **named} for name in _PARAMETER.findall(route.path)],
        "responses": answers,
    }
