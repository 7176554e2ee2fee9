"""Keys that the cluster's secret is enough to make: each node makes the same ones, and none is sent.

Source:
    RFC 7914 (scrypt): a stranger gets to see what a key has signed, and may guess secrets by that.
"""

import hashlib

# A guess takes 60 ms and 32 MiB, as does each key.
GUESS_COST, GUESS_BLOCK_SIZE, GUESS_BYTES_MAX = 2**15, 8, 64 * 1024 * 1024


def secret_key(secret: bytes, purpose: bytes, cluster: str, size: int) -> bytes:
    """Return a key of `size` bytes.

    Args:
        purpose: another one makes another key.
        cluster: its name: the same secret in another cluster makes another key.
    """
    return hashlib.scrypt(
        secret,
        salt=purpose + b"\0" + cluster.encode(),
        n=GUESS_COST,
        r=GUESS_BLOCK_SIZE,
        p=1,
        maxmem=GUESS_BYTES_MAX,
        dklen=size,
    )
