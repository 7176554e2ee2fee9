"""Replicas, leaders and epochs: who may append to a partition."""

from routelog.mirror_cluster.standalone import claim_epoch

__all__ = ["claim_epoch"]
