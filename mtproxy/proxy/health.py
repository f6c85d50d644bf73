"""Health: the rise/fall counter of one checked server, as a pure state machine.

The counter runs from 0 (DOWN) to rise + fall - 1 (UP); from `rise` on the server is up. A success
adds one, and the success that reaches `rise` jumps to the top; a failure takes one away, and the
failure that goes below `rise` drops to 0. So `rise` successes in a row bring a server up and `fall`
failures in a row take it down. A server starts at `rise`: up, but its first failure takes it down
(manual 5.2, `rise` and `fall`; verified against HAProxy 2.6), unless `init-state` says otherwise.

No lock: the owner (ServerState) serializes the calls.
"""

from __future__ import annotations


class Health:
    """`rise` and `fall` are at least 1."""

    __slots__ = ("fall", "rise", "start", "value")

    def __init__(self, rise: int, fall: int, start: str = "up") -> None:
        """`start` is `init-state`: "up", "fully-up", "down" or "fully-down"."""
        self.rise = rise
        self.fall = fall
        #: where the counter begins
        self.start = {
            "up": rise,
            "fully-up": rise + fall - 1,
            "down": rise - 1,
            "fully-down": 0,
        }[start]
        self.value = self.start

    @property
    def top(self) -> int:
        return self.rise + self.fall - 1

    @property
    def up(self) -> bool:
        return self.value >= self.rise

    @property
    def full(self) -> bool:
        """Whether one more result of the same kind would change nothing."""
        value = self.value  # no tuple: this is asked at each check
        return not value or value == self.rise + self.fall - 1

    def passed(self) -> bool:
        """Count a success. Returns whether the counter moved."""
        top = self.rise + self.fall - 1
        if self.value == top:
            return False
        self.value += 1
        if self.value >= self.rise:
            self.value = top
        return True

    def failed(self) -> bool:
        """Count a failure. Returns whether the counter moved."""
        if not self.value:
            return False
        self.value -= 1
        if self.value < self.rise:
            self.value = 0
        return True

    def restart(self) -> None:
        """Back to the start (leaving maintenance)."""
        self.value = self.start

    def interval(self, inter: int, fastinter: int | None, downinter: int | None) -> int:
        """Milliseconds to the next check (manual 5.2, table at `inter`)."""
        if self.full:
            if self.value or downinter is None:
                return inter
            return downinter
        return inter if fastinter is None else fastinter

    def text(self) -> str:
        """How far it is, as in "Health check for server ... status: 2/3 UP."."""
        return f"{self.progress(up=self.up)} {'UP' if self.up else 'DOWN'}"

    def progress(self, *, up: bool) -> str:
        """How far it is, for a server that is up or down for whatever reason: "2/3"."""
        if up:
            return f"{self.value - self.rise + 1}/{self.fall}"
        return f"{self.value}/{self.rise}"

    def status(self) -> str:
        """As a status: "UP", "UP 2/3", "DOWN 1/2", "DOWN"."""
        word = "UP" if self.up else "DOWN"
        return word if self.full else f"{word} {self.progress(up=self.up)}"
