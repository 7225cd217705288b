"""A certificate for a server of the tests."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """Write a self-signed certificate and its key into *folder*; needs ``openssl``."""
    certificate, key = folder / "server.crt", folder / "server.key"
    subprocess.run(
        [
            *("openssl", "req", "-new", "-x509", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-out", certificate, "-keyout", key),
        ],
        check=True,
        capture_output=True,
    )
    return certificate, key
