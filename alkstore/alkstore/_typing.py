"""Typing names that the oldest supported Pythons lack."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 12):
    from typing import Self, Unpack, override
else:
    from typing_extensions import Self, Unpack, override

__all__ = ["Self", "Unpack", "override"]
