"""Who is measured: ourselves, hand-written psycopg, and the peers. One file each.

These modules run in child processes, the peers' perhaps under another interpreter: they
import nothing of alkstore, except for `alkstore` itself.
"""
