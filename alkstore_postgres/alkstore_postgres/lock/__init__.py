"""Leases with an owner, an end on the store clock and a fencing token."""
