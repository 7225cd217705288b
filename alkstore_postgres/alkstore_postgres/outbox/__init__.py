"""The outbox: a helper over a queue of its own, no mechanism and no SQL of its own."""
