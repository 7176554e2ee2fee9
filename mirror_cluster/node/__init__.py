"""A node: it runs replicas for real, with a clock, disks, connections and a coordinator."""
