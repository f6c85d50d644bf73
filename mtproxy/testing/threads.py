"""Several real threads at once, and what went wrong in them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator


def run_threads(count: int, body: Callable[[int], None], seconds: float = 60.0) -> None:
    """Run `body(number)` for 0..count-1, all at once; raises the first failure.

    They are daemons: a deadlock ends as a failure after `seconds`, not as a run that never ends.
    """
    start = threading.Barrier(count)
    failures: list[BaseException] = []

    def run(number: int) -> None:
        start.wait()
        try:
            body(number)
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    if failures:
        raise failures[0]
    hanging = [number for number, thread in enumerate(threads) if thread.is_alive()]
    if hanging:
        raise TimeoutError(f"threads {hanging} hang")


@contextlib.contextmanager
def playing(body: Callable[[], object], seconds: float = 30.0) -> Iterator[None]:
    """Run `body` on another thread beside the `with` block; raises what it raised."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            body()
        except BaseException as error:  # noqa: BLE001 - raised again below
            failures.append(error)

    thread = threading.Thread(target=run, name="player", daemon=True)
    thread.start()
    yield
    thread.join(seconds)
    if failures:
        raise failures[0]
    if thread.is_alive():
        raise TimeoutError("the other thread hangs")
