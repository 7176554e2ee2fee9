"""A certificate for a broker that is measured with TLS."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_COMMAND = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    "-subj /CN=127.0.0.1 -addext subjectAltName="
)


@dataclass(frozen=True)
class Certificate:
    """A certificate for hosts, signed by itself, and its key; both PEM."""

    file: Path
    key: Path

    def uri(self, port: int) -> str:
        """The URI of a broker on 127.0.0.1 that shows it; with RabbitMQ's parameters."""
        trusted = quote(str(self.file), safe="")
        return f"amqps://guest:guest@127.0.0.1:{port}/?cacertfile={trusted}"


def make_certificate(folder: Path, *hosts: str) -> Certificate | None:
    """A new certificate for addresses, by default 127.0.0.1; None where there is no `openssl` to make one."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    names = ",".join(f"IP:{host}" for host in hosts or ("127.0.0.1",))
    command = [*f"{_COMMAND}{names}".split(), "-out", str(made.file), "-keyout", str(made.key)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return made
