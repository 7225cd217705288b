"""A signal that ends nobody's sleep: the interpreter has noted it, and its handler waits.

That is what becomes of a signal in the instant before the main thread falls asleep. Here it happens
for certain: the signal goes to another thread, and handlers run in the main thread only.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from alkstore.stop_token import SLICE

HEARD = SLICE + 0.7
"""How long after it was noted a signal may be heard, in seconds."""

_RESCUE = 10.0
_ASLEEP = 0.1


def until_heard(wait: Callable[[], object], handle: Callable[[], object]) -> float:
    """Return how long after the signal *wait* returned, in seconds.

    Args:
        wait: Sleeps in the main thread, the caller's.
        handle: Ends *wait*: the handler of the signal.
    """
    noted: list[float] = []

    def send() -> None:
        time.sleep(_ASLEEP)
        noted.append(time.monotonic())
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    former = signal.signal(signal.SIGUSR1, lambda *_: handle())
    rescue = threading.Timer(_RESCUE, handle)
    sender = threading.Thread(target=send)
    try:
        rescue.start()
        sender.start()
        wait()
        return time.monotonic() - noted[0]
    finally:
        rescue.cancel()
        sender.join()
        rescue.join()
        signal.signal(signal.SIGUSR1, former)
