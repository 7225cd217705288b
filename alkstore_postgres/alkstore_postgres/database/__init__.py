"""The way to the database: check-out, transactions, errors, statements, the seam."""
