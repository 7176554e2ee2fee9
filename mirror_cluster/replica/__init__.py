"""One replica of a shard, leader or follower, as a state machine: events in, actions out, no I/O."""
