"""Schedules: the spec's grammar, the boundary math, the registry, the tick, the leader loop."""
