"""What a node without a leader tells a client of HTTP: bytes in, bytes out."""

import msgspec

REQUEST_BYTES_MAX = 65_536  # of the head of a request
RETRY_SECONDS = 1


class HttpRefusal:
    """503, with the reason as the HTTP API gives it."""

    def __init__(self, reason: str) -> None:
        self.is_over = False
        self._reason = reason
        self._received = b""

    def take(self, data: bytes) -> bytes:
        """Take what came from the client; returns what it is to be sent."""
        self._received += data
        if b"\r\n\r\n" not in self._received:
            self.is_over = len(self._received) > REQUEST_BYTES_MAX
            return b""
        self.is_over = True
        body = msgspec.json.encode({"error": "no_leader", "reason": self._reason})
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nRetry-After: {RETRY_SECONDS}\r\n"
            "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        return head.encode() + (b"" if self._received.startswith(b"HEAD ") else body)
