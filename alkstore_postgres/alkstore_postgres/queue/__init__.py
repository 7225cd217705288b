"""Queues: enqueue, claim, settle, dead letters, inspection."""
