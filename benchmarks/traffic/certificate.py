"""A certificate for a broker that is measured with TLS."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

_COMMAND = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
    "-subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
)


@dataclass(frozen=True)
class Certificate:
    """A certificate for 127.0.0.1, signed by itself, and its key; both PEM."""

    file: Path
    key: Path

    def uri(self, port: int) -> str:
        """The URI of a broker that shows it; with RabbitMQ's parameters."""
        trusted = quote(str(self.file), safe="")
        return f"amqps://guest:guest@127.0.0.1:{port}/?cacertfile={trusted}"


def make_certificate(folder: Path) -> Certificate | None:
    """A new certificate; None where there is no `openssl` to make one."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = [*_COMMAND.split(), "-out", str(made.file), "-keyout", str(made.key)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    return made
