"""The command line of a cluster: it asks the coordinator, so it works while nodes are down."""
