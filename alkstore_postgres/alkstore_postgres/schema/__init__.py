"""The schema: numbered migrations and the migrator."""
