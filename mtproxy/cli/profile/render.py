"""A Profile as text or JSON: collapsed stacks, a table, speedscope's format. Pure."""

from __future__ import annotations

import json
from collections import Counter

from mtproxy.cli.profile.stacks import Frame, Profile

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


def raw(profile: Profile) -> str:
    """Collapsed stacks, as Brendan Gregg's flamegraph.pl reads them: the thread's name and the
    frames from the outermost on, separated by `;`, then how often that was seen.
    """
    counts: Counter[str] = Counter()
    for thread, stack in profile.stacks():
        words = [thread, *(frame.label() for frame in stack)]
        counts[";".join(_word(word) for word in words)] += 1
    return "".join(f"{line} {count}\n" for line, count in sorted(counts.items()))


def _word(text: str) -> str:
    return text.replace(";", ":").replace("\n", " ")


def speedscope(profile: Profile, name: str) -> str:
    """A file for https://www.speedscope.app (which also works offline): a profile per thread, in
    seconds, samples in order of time.
    """
    numbers: dict[Frame, int] = {}
    frames: list[dict[str, object]] = []
    profiles: list[dict[str, object]] = []
    for thread in profile.threads:
        samples = []
        for sample in thread.samples:
            stack = []
            for frame in sample.stack:
                number = numbers.get(frame)
                if number is None:
                    number = numbers[frame] = len(frames)
                    one: dict[str, object] = {"name": frame.name}
                    if frame.file:
                        one["file"] = frame.file
                    if frame.line:
                        one["line"] = frame.line
                    frames.append(one)
                stack.append(number)
            samples.append(stack)
        weight = round(profile.interval, 9)
        profiles.append(
            {
                "type": "sampled",
                "name": thread.name,
                "unit": "seconds",
                "startValue": 0,
                "endValue": round(weight * len(samples), 9),
                "samples": samples,
                "weights": [weight] * len(samples),
            }
        )
    content = {
        "$schema": SPEEDSCOPE_SCHEMA,
        "exporter": f"mtproxy profile, {profile.sampler}",
        "name": name,
        "activeProfileIndex": 0,
        "shared": {"frames": frames},
        "profiles": profiles,
    }
    return json.dumps(content) + "\n"


def shares(profile: Profile) -> list[tuple[Frame, int, int]]:
    """Each function with the samples in which it ran itself, and those in which it stood on the
    stack; the most of its own first.
    """
    own: Counter[Frame] = Counter()
    total: Counter[Frame] = Counter()
    for _, stack in profile.stacks():
        if stack:
            own[stack[-1]] += 1
            total.update(set(stack))
    rows = [(frame, own[frame], count) for frame, count in total.items()]
    rows.sort(key=lambda row: (-row[1], -row[2], row[0]))
    return rows


def top(profile: Profile, busy_of: Profile | None = None, lines: int | None = None) -> str:
    """A table of functions. `busy_of` is the profile with its idle samples, for the head."""
    count = sum(1 for _ in profile.stacks())
    text = [
        f"# {profile.sampler}, pid {profile.pid}, Python {profile.python}: "
        f"{profile.rounds} rounds in {profile.seconds:.1f} s, {count} samples\n"
    ]
    resting = 0
    for thread in (busy_of or profile).threads:
        busy = sum(not sample.idle for sample in thread.samples)
        share = 100 * busy / max(1, profile.rounds)
        if busy:
            text.append(f"# {thread.name}: busy in {busy} samples, {share:.0f} % of the time\n")
        resting += not busy
    if resting:
        text.append(f"# idle all the time: {resting} thread{'s' * (resting > 1)}\n")
    text.extend(f"# {note}\n" for note in profile.notes)
    text.append(f"{'OWN %':>7}{'TOTAL %':>9}{'OWN':>9}{'TOTAL':>9}  FUNCTION\n")
    for frame, own, total in shares(profile)[:lines]:
        percents = f"{100 * own / count:>7.2f}{100 * total / count:>9.2f}"
        text.append(f"{percents}{own:>9}{total:>9}  {frame.label()}\n")
    return "".join(text)
