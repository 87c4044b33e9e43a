"""How far a long task is: a tqdm bar where tqdm is installed, else a line on standard error that rewrites itself.

A task that ends within a second shows nothing.
"""

import sys
import time

SILENCE = 1.0  # seconds
ELSEWHERE = 30.0  # seconds between two lines where standard error is no terminal


class Bar:
    """The progress of one task after another; `softdiff` calls it, in the thread that called `softdiff`."""

    def __init__(self):
        self._task = None
        self._begun = time.monotonic()
        self._tqdm = None
        self._next = 0.0
        self._width = 0

    def update(self, task, unit, done, total, saying=""):
        now = time.monotonic()
        if task != self._task:
            self.close()
            self._task, self._begun = task, now
            self._next = now + (SILENCE if sys.stderr.isatty() else ELSEWHERE)
            self._first = done
            self._tqdm = _tqdm(task, unit, done, total)
        if self._tqdm is not None:
            self._tqdm.total = total
            if saying:
                self._tqdm.set_postfix_str(saying, refresh=False)
            self._tqdm.update(done - self._tqdm.n)
            return
        if now < self._next or done >= total:
            return
        rate = (done - self._first) / max(now - self._begun, 1e-9)
        left = (total - done) / rate if rate > 0 else 0
        line = f"{task}: {done} of {total} {unit}, {100 * done // max(total, 1)} %, {left:.0f} s left"
        line += f", {saying}" if saying else ""
        if sys.stderr.isatty():
            self._next = now + 0.1
            print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
            self._width = len(line)
        else:
            self._next = now + ELSEWHERE
            print(line, file=sys.stderr, flush=True)

    def close(self):
        if self._tqdm is not None:
            self._tqdm.close()
            self._tqdm = None
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0
        self._task = None


def _tqdm(task, unit, done, total):
    """A bar of tqdm, or None without tqdm."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=task, total=total, initial=done, unit=" " + unit, delay=SILENCE, leave=False)
