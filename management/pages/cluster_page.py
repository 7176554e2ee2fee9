"""The cluster: who leads, who has everything, how far copies are behind, and what changed."""

from routelog.management.pages.visit import Shown, Shows, Visit


async def show_cluster(visit: Visit) -> Shows:
    """Nodes, standbys and the timeline."""
    return Shown("cluster.html", {"state": await visit.get("/cluster")})
