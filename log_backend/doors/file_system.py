"""File systems on which a synced write may not be durable."""

_REMOTE = "its server decides when a synced write is on a disk, and locks may not hold"

_DOUBTS = {
    "nfs": _REMOTE,
    "nfs4": _REMOTE,
    "cifs": _REMOTE,
    "smb3": _REMOTE,
    "9p": _REMOTE,
    "afs": _REMOTE,
    "ceph": _REMOTE,
    "glusterfs": _REMOTE,
    "virtiofs": _REMOTE,
    "overlay": "it is a container's own layer, which goes with the container and may skip syncs",
    "tmpfs": "it is in memory: nothing of it survives a power cut",
    "ramfs": "it is in memory: nothing of it survives a power cut",
}


def doubt(kind: str) -> str | None:
    """Why a confirm may not be durable on this kind of file system; None: it is."""
    if kind == "fuse" or kind.startswith("fuse."):
        return "the program behind it decides what a sync does"
    return _DOUBTS.get(kind)
