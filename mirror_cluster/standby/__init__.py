"""A warm standby: a node that follows one running node, without a coordinator, until it is promoted."""
