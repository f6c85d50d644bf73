"""Messages and shared tasks across the threads of a real pool: none lost, none twice, none late.

The poller is a patient one, see `testing.pools`: a lost wake-up is not hidden by the loop's own
second, it hangs, and the test says who sleeps on what.
"""

from __future__ import annotations

import functools
import random
import threading
from collections import Counter, defaultdict

import pytest

from mtproxy.base.clock import monotonic_ms
from mtproxy.sched.context import ThreadContext
from mtproxy.sched.pool import Pool
from mtproxy.sched.waitqueue import NEVER
from mtproxy.sched.waitqueue_variants import VARIANTS
from mtproxy.testing.pools import make_patient, run_with, running_pool
from mtproxy.testing.threads import run_threads
from mtproxy.testing.waiting import wait_until

pytestmark = pytest.mark.stress
THREADS = 3
#: seconds; each hand-over costs a busy machine some milliseconds
LONG = 90.0


def state(pool: Pool) -> str:
    """For the message of a test that hangs."""
    return ", ".join(
        f"thread {s.tid}: {'asleep' if s.sleeping else 'awake'}, {len(s.inbox)} in its inbox"
        for s in pool.shareds
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_posts_from_outside_all_arrive_in_order(seed: int) -> None:
    """Three posters in bursts and pauses; the pool's threads fall asleep in between."""
    posters, each = 3, 4000
    #: (poster, thread) -> serial numbers as they ran; every list has one writer
    arrived: dict[tuple[int, int], list[int]] = defaultdict(list)
    sent: dict[tuple[int, int], list[int]] = defaultdict(list)
    for poster in range(posters):
        for tid in range(THREADS):
            arrived[poster, tid], sent[poster, tid] = [], []

    with running_pool(THREADS, watchdog_ms=0) as pool:

        def post(poster: int) -> None:
            rng = random.Random(seed * 100 + poster)
            pause = threading.Event()
            for serial in range(each):
                tid = rng.randrange(THREADS)
                sent[poster, tid].append(serial)

                def message(ctx: ThreadContext, poster: int = poster, serial: int = serial) -> None:
                    arrived[poster, ctx.tid].append(serial)

                pool.run_on(tid, message)
                if rng.random() < 0.05:
                    pause.wait(rng.random() * 0.002)

        def play() -> None:
            run_threads(posters, post)
            wait_until(lambda: arrived == sent, f"all messages ({state(pool)})", LONG)

        run_with(pool, play, make_patient)
        assert sum(ctx.activity.inbox for ctx in pool.contexts) >= posters * each
        assert sum(ctx.activity.wake_signal for ctx in pool.contexts) > 0, "nobody ever slept"
        assert not pool.failed


@pytest.mark.parametrize("balls", [1, 2, 5])
def test_a_ball_thrown_from_thread_to_thread_is_never_dropped(balls: int) -> None:
    """With one ball all but one thread sleep, and every throw has to wake one."""
    throws = 12_000
    caught: Counter[int] = Counter()
    done = threading.Event()
    finished: list[int] = []

    with running_pool(THREADS, watchdog_ms=0) as pool:

        def throw(ball: int, left: int, rng: random.Random) -> None:
            def catch(ctx: ThreadContext) -> None:
                caught[ball] += 1  # a ball is in one place: one writer per key at a time
                if left:
                    throw(ball, left - 1, rng)
                else:
                    finished.append(ball)
                    if len(finished) == balls:
                        done.set()

            pool.run_on(rng.randrange(THREADS), catch)

        def play() -> None:
            for ball in range(balls):
                caught[ball] = 0
            for ball in range(balls):
                throw(ball, throws - 1, random.Random(ball))
            assert done.wait(LONG), f"{dict(caught)} of {throws} throws ({state(pool)})"

        run_with(pool, play, make_patient)
    assert caught == dict.fromkeys(range(balls), throws)


class Hopper:
    """A shared task that runs on whichever thread collects it and queues itself anew."""

    def __init__(self, pool: Pool, seed: int, runs: int) -> None:
        self.expire: int | None = None
        self.wq_key: tuple[int, int] | None = None
        self.pool = pool
        self.rng = random.Random(seed)
        self.left = runs
        self.tids: Counter[int] = Counter()
        self.early = 0
        self.running = False
        self.done = threading.Event()

    def run(self, ctx: ThreadContext) -> None:
        assert not self.running, "two threads run it at once"
        self.running = True
        assert self.expire is not None
        self.early += ctx.now < self.expire
        self.tids[ctx.tid] += 1
        self.left -= 1
        self.running = False
        if self.left:
            self.pool.wait_queue.queue(self, ctx.now + self.rng.randrange(4), ctx.tid)
        else:
            self.done.set()


@pytest.mark.parametrize("variant", VARIANTS)
def test_shared_tasks_run_on_time_by_one_thread_each(variant: str) -> None:
    """Queued again from the thread that ran them, a few ms ahead, while others sleep."""
    hoppers, runs = 20, 400
    with running_pool(THREADS, watchdog_ms=0, wait_queue=variant) as pool:
        tasks = [Hopper(pool, seed, runs) for seed in range(hoppers)]

        def start(ctx: ThreadContext) -> None:
            for task in tasks[ctx.tid :: THREADS]:
                pool.wait_queue.queue(task, ctx.now, ctx.tid)

        def play() -> None:
            pool.run_everywhere(start)
            for number, task in enumerate(tasks):
                assert task.done.wait(LONG), f"task {number}: {task.left} runs left ({state(pool)})"

        run_with(pool, play, make_patient)
        assert len(pool.wait_queue) == 0
        pool.wait_queue._check()
        assert not pool.failed
        assert sum(ctx.activity.errors for ctx in pool.contexts) == 0
        assert sum(ctx.activity.tasksw for ctx in pool.contexts) == hoppers * runs
    assert [task.early for task in tasks] == [0] * hoppers
    assert all(sum(task.tids.values()) == runs for task in tasks)
    assert len(sum((task.tids for task in tasks), Counter())) > 1, "all ran on one thread"


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_shared_task_queued_by_one_thread_wakes_the_sleepers(variant: str) -> None:
    """A helper queues tasks one by one while every thread sleeps without an end."""
    rounds = 200
    with running_pool(THREADS, watchdog_ms=0, wait_queue=variant) as pool:

        def play() -> None:
            for number in range(rounds):
                wait_until(lambda: all(s.sleeping for s in pool.shareds), "all asleep")
                task = Hopper(pool, number, 1)
                tick = monotonic_ms() + number % 3
                # the slot of helper threads
                assert pool.wait_queue.queue(task, tick, THREADS)
                assert task.done.wait(LONG), f"round {number} ({state(pool)})"
                assert task.early == 0

        run_with(pool, play, make_patient)
        assert len(pool.wait_queue) == 0


@pytest.mark.parametrize("busy", range(THREADS))
def test_a_busy_thread_does_not_hold_an_expiry_up(busy: int) -> None:
    """Whichever thread watches the queue: when it is busy, another one comes a little later."""
    with running_pool(THREADS, watchdog_ms=0) as pool:

        def play() -> None:
            go_on = threading.Event()
            entered = threading.Event()

            def block(_ctx: ThreadContext) -> None:
                entered.set()
                assert go_on.wait(20)

            def one_watches(task: Hopper) -> bool:
                return task.done.is_set() or (
                    pool.wait_queue.watched != NEVER and all(s.sleeping for s in pool.shareds)
                )

            tried = 0
            try:
                for number in range(200):
                    wait_until(lambda: all(s.sleeping for s in pool.shareds), "all asleep")
                    task = Hopper(pool, number, 1)
                    # somebody comes to see, and falls asleep again
                    pool.wait_queue.queue(task, monotonic_ms() + 40, THREADS)
                    wait_until(functools.partial(one_watches, task), "one watches")
                    if task.done.is_set():
                        continue  # this thread was too slow
                    tried += 1
                    entered.clear()
                    go_on.clear()
                    pool.run_on(busy, block)
                    assert entered.wait(5)
                    assert task.done.wait(10), f"round {number} ({state(pool)})"
                    assert not go_on.is_set()
                    go_on.set()
                    if tried == 10:
                        return
            finally:
                go_on.set()
            raise AssertionError(f"only {tried} rounds in time")

        run_with(pool, play, make_patient)
        assert len(pool.wait_queue) == 0
