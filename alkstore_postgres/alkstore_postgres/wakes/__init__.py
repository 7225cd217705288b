"""Wakes: the listening thread, its registry of waiters, and the sender."""
