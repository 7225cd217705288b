"""The transaction seam: how a statement of ours joins the caller's transaction."""

from __future__ import annotations

from alkstore_postgres.database.seam.join import join
from alkstore_postgres.database.seam.joined import Joined

__all__ = ["Joined", "join"]
