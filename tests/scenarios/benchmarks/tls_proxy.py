"""TLS in front of a broker: a certificate of its own, and a thread that copies bytes both ways."""

from __future__ import annotations

import selectors
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
    "-days 2 -subj /CN=localhost"
)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for localhost, signed by itself, and its key."""
    made, key = folder / "ca.pem", folder / "key.pem"
    names = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    command = [*_CERTIFICATE.split(), *names, "-out", str(made), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return made, key


@contextmanager
def tls_proxy(host: str, port: int, folder: Path) -> Iterator[int]:
    """A port of this machine that speaks TLS, in front of a broker that does not; its number."""
    made, key = certificate(folder)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(
            target=_accept, args=(listener, context, (host, port)), daemon=True
        )
        accepting.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join(60)


def _accept(listener: socket.socket, context: ssl.SSLContext, address: tuple[str, int]) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_relay, args=(client, context, address), daemon=True).start()


def _relay(client: socket.socket, context: ssl.SSLContext, address: tuple[str, int]) -> None:
    try:
        wrapped = context.wrap_socket(client, server_side=True)
    except OSError:
        client.close()
        return
    with wrapped, socket.create_connection(address) as broker, selectors.DefaultSelector() as ready:
        other: dict[socket.socket, socket.socket] = {wrapped: broker, broker: wrapped}
        for each in other:
            ready.register(each, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                source = key.fileobj
                assert isinstance(source, socket.socket)
                try:
                    data = source.recv(65_536)
                    while wrapped.pending() and source is wrapped:
                        data += wrapped.recv(65_536)
                    other[source].sendall(data)
                except OSError:
                    return
                if not data:
                    return
