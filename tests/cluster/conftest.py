"""Nodes keep their data on a disk, whose syncs decide when they confirm."""

from crash.disks.disk_directories import tmp_path_factory

__all__ = ["tmp_path_factory"]
