"""The listening sockets of a node, bound all at once or not at all."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest

from routelog.broker.listeners.listening_sockets import CannotListen, ListeningSockets
from routelog.broker.node.configuration import BrokerConfig


def bind(**keys: object) -> ListeningSockets:
    """Bind what a configuration asks for."""
    config = BrokerConfig(**{"host": "127.0.0.1", "port": 0, "tls_port": 0, **keys})
    return ListeningSockets.bind(config, 0o700)


def connects(address: tuple[str, int] | str) -> bool:
    """Whether somebody listens."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as client:
        return client.connect_ex(address) == 0


def test_all_addresses_have_the_same_free_port(tmp_path: Path) -> None:
    path = str(tmp_path / "amqp")
    sockets = bind(host="127.0.0.1, 127.0.0.2", tls_certificate="some.pem", unix_socket=path)
    host, port = sockets.address
    assert host == "127.0.0.1"
    assert [each.getsockname() for each in sockets.plain] == [(host, port), ("127.0.0.2", port)]
    assert sockets.tls_address is not None
    assert sockets.tls_address[1] != port
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o700
    assert connects(("127.0.0.2", port))
    assert connects(path)
    sockets.close()
    assert not connects(("127.0.0.2", port))


def test_without_a_certificate_there_is_no_tls() -> None:
    sockets = bind()
    assert (sockets.tls_address, sockets.tls, sockets.unix) == (None, [], [])
    sockets.close()


def test_what_another_one_has_is_said_and_nothing_listens() -> None:
    first = bind()
    with pytest.raises(CannotListen, match="stop what listens there"):
        bind(host="127.0.0.2,127.0.0.1", port=first.address[1])
    assert not connects(("127.0.0.2", first.address[1]))
    first.close()


def test_a_path_that_cannot_be_is_said(tmp_path: Path) -> None:
    with pytest.raises(CannotListen, match="cannot listen on"):
        bind(unix_socket=str(tmp_path / "missing" / "amqp"))


def test_a_socket_that_was_left_is_replaced(tmp_path: Path) -> None:
    path = str(tmp_path / "amqp")
    bind(unix_socket=path).close()
    assert not connects(path)
    sockets = bind(unix_socket=path)
    assert connects(path)
    sockets.close()


def test_nobody_accepts_from_sockets_that_refuse(tmp_path: Path) -> None:
    path = str(tmp_path / "amqp")
    sockets = bind(unix_socket=path)
    inherited = sockets.plain[0].dup()  # another process's
    sockets.refuse()
    assert not connects(sockets.address)
    assert not connects(path)
    with pytest.raises(OSError, match="Invalid argument"):
        inherited.accept()
    inherited.close()
    sockets.close()
