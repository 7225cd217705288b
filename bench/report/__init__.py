"""What is written of a run: a table, the figures as JSON, and plots."""
