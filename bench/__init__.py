"""The benchmark: alkstore, the raw limit and the peers, side by side."""
