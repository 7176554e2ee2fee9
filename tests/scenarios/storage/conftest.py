"""Data directories of tests of the disk are on one."""

from crash.disks.disk_directories import tmp_path_factory

__all__ = ["tmp_path_factory"]
