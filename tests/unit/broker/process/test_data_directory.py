"""What cannot be used at a start is said in words, by file and entry."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from routelog.broker.node.configuration import BrokerConfig
from routelog.broker.process.data_directory import (
    StartError,
    given_definitions,
    in_words,
    usable,
)
from routelog.log_backend import UnknownEntry
from routelog.vhosts import InvalidDefinition


def test_definitions_are_read_by_the_rules_of_the_configuration() -> None:
    shovel = {"component": "shovel", "vhost": "v", "name": "s", "value": {}}
    content = json.dumps({"vhosts": [{"name": "v"}], "parameters": [shovel]}).encode()
    refuses, keeps = (
        BrokerConfig(definitions_file="d.json", definitions_unknown=each)
        for each in ("refuse", "keep")
    )
    assert [each.name for each in given_definitions(refuses, content).vhosts] == ["v"]
    with pytest.raises(InvalidDefinition, match=r"parameters\[0\] 's'"):
        given_definitions(refuses, content).problems.check()
    given_definitions(keeps, content).problems.check()
    for bad, reason in ((b"{", "not JSON: line 1"), (b"[]", "the document: it is no JSON object")):
        with pytest.raises(StartError, match=f"^definitions d.json: {reason}"):
            given_definitions(keeps, bad)


def test_what_is_wrong_is_said_without_the_systems_number() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", "data/LOCK")
    assert in_words(error) == "data/LOCK: Permission denied"
    assert in_words(ValueError("torn")) == "torn"
    config = BrokerConfig(data_dir=Path("data"), definitions_file="d.json")
    for raised, said in (
        (error, "data directory data: data/LOCK: Permission denied"),
        (
            UnknownEntry(9, 3, "this kind is not known"),
            "data directory data: a later version wrote journal entry of kind 9 of partition 3: this kind",
        ),
        (InvalidDefinition("users[0]: bad"), "definitions d.json: users[0]: bad"),
    ):
        with pytest.raises(StartError, match=f"^{said}".replace("[", r"\[")), usable(config):
            raise raised
