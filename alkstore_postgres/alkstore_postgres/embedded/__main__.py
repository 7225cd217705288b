"""Runs a server in the foreground until Ctrl-C: ``python -m alkstore_postgres.embedded``."""

from __future__ import annotations

import argparse

from alkstore.stop_token import StopToken
from alkstore_postgres.embedded import EmbeddedServerError, server


def main() -> None:
    """Start a server, print its URL, and wait."""
    parser = argparse.ArgumentParser(
        prog="python -m alkstore_postgres.embedded", description="Run a server until Ctrl-C."
    )
    parser.add_argument("directory", nargs="?", help="where data live (default: temporary)")
    parser.add_argument("--bin-directory", help="another installation's programs")
    arguments = parser.parse_args()
    stop = StopToken()
    try:
        with (
            stop.on_signals(),
            server(arguments.directory, bin_directory=arguments.bin_directory) as running,
        ):
            print(running.url, flush=True)  # noqa: T201 - what it is for
            stop.wait()
    except EmbeddedServerError as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
