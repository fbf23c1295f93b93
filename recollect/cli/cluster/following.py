"""Collection of submitted sweeps while their page is open."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recollect.cli.printing import complain
from recollect.errors import RecollectError


def sleep_unless(stop: Callable[[], int], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not stop():
        time.sleep(0.2)


@contextmanager
def following(folders: Sequence[Path]) -> Iterator[None]:
    """Within the context, keep the results of `folders` that many machines train up to date."""
    from recollect.running.cluster.plan import is_planned

    ended = threading.Event()
    threads = [
        threading.Thread(target=_follow, args=(folder, ended))
        for folder in filter(is_planned, folders)
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _follow(folder: Path, ended: threading.Event) -> None:
    from recollect.running.cluster.collect import Collector
    from recollect.running.cluster.plan import read_plan

    try:
        with Collector(read_plan(folder)) as collector:
            for _ in collector.follow(lambda seconds: not ended.wait(seconds)):
                pass
    except RecollectError as error:  # published results stay, but are not updated
        complain(f"{folder}: no longer collected: {error}")
