"""The PostgreSQL engine of alkstore."""
