"""Lock statistics for people and programs: HAProxy's text, JSON, a table, Prometheus.

All read what `sync.stats` and `sync.profile` have counted, at the moment of the call; any thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict

from mtproxy.sync import bare, debug, profile, stats
from mtproxy.sync.labels import LABELS, LockLabel
from mtproxy.sync.profile import KINDS, LabelProfile, Site
from mtproxy.sync.stats import LockStats

#: call sites shown for each label in text and table
SITES_SHOWN = 3

#: what there is to say when locks do not count
BUILT_OUT = "Lock statistics are built out of this process: tune.lock-stats is off.\n"


# -- text ------------------------------------------------------------------------------------------


def _kind_text(kind: str, locks: int, unlocks: int, wait_ns: int) -> str:
    return (
        f"\t {kind + ' lock':<12}: {locks}\n"
        f"\t {kind + ' unlock':<12}: {unlocks} ({unlocks - locks})\n"
        f"\t {'wait time for ' + kind:<24}: {wait_ns / 1e6:.3f} msec\n"
        f"\t {'wait time for ' + kind + '/lock':<24}: {wait_ns / locks:.3f} nsec\n"
    )


def render_one(one: LockStats) -> str:
    """One label as HAProxy prints it, followed by failed upgrades and the longest wait.

    A kind of lock that was never taken has no lines, and a label that was never used says so.
    """
    if not one.used:
        return f"Stats about Lock {one.label}: not used\n"
    text = f"Stats about Lock {one.label}:\n"
    if one.write_locks:
        text += _kind_text("write", one.write_locks, one.write_unlocks, one.write_wait_ns)
    if one.seek_locks:
        text += _kind_text("seek", one.seek_locks, one.seek_unlocks, one.seek_wait_ns)
    if one.read_locks:
        text += _kind_text("read", one.read_locks, one.read_unlocks, one.read_wait_ns)
    text += f"\t {'failed upgrades':<24}: {one.failed_upgrades}\n"
    text += f"\t {'longest wait':<24}: {one.longest_wait_ns / 1e6:.3f} msec\n"
    return text


def _site_line(title: str, site: Site) -> str:
    return (
        f"\t {title:<24}: {site} {site.kind}, {site.longest_ns / 1e6:.3f} msec"
        f" ({site.count} times, {site.total_ns / 1e6:.3f} msec)\n"
    )


def render_profile(one: LabelProfile) -> str:
    """The lines about hold times and call sites, which follow the block of the label."""
    text = ""
    for kind in reversed(KINDS):
        holds = one.holds[kind]
        if holds.count:
            text += (
                f"\t {'hold time for ' + kind:<24}: {holds.total_ns / 1e6:.3f} msec\n"
                f"\t {'hold time for ' + kind + '/lock':<24}: {holds.mean_ns:.3f} nsec\n"
                f"\t {'longest hold for ' + kind:<24}: {holds.longest_ns / 1e6:.3f} msec\n"
            )
    text += "".join(_site_line("longest wait at", site) for site in one.wait_sites[:SITES_SHOWN])
    text += "".join(_site_line("longest hold at", site) for site in one.hold_sites[:SITES_SHOWN])
    return text


def blocks(label: LockLabel | None = None) -> Iterator[str]:
    """The block of each label, or of one, each whole."""
    if bare.is_stripped():
        yield BUILT_OUT
        return
    for one in LABELS if label is None else (label,):
        yield render_one(stats.snapshot_of(one)) + render_profile(profile.profile_of(one))


def render_text(label: LockLabel | None = None) -> str:
    """All blocks."""
    return "".join(blocks(label))


def held_text() -> str:
    """Which thread holds what now, as far as -dL knows; empty without it."""
    if not debug.is_enabled():
        return ""
    lines = [f"\t {name}: {', '.join(held)}\n" for name, held in debug.held_locks().items()]
    return "Locks held now:\n" + ("".join(lines) or "\t none\n")


# -- JSON ------------------------------------------------------------------------------------------


def _json_of(one: LockStats, found: LabelProfile) -> dict[str, object]:
    content: dict[str, object] = asdict(one)
    content["wait_ns"] = one.wait_ns
    content["longest_wait_ns"] = one.longest_wait_ns
    content["profile"] = None
    if profile.is_on() or found.found:
        content["profile"] = {
            "on": profile.is_on(),
            "holds": {kind: asdict(holds) for kind, holds in found.holds.items()},
            "wait_sites": [asdict(site) for site in found.wait_sites],
            "hold_sites": [asdict(site) for site in found.hold_sites],
        }
    return content


def render_json() -> str:
    """The same as a JSON array of objects, one per label, with `LockStats`'s field names."""
    if bare.is_stripped():
        return "[]"
    return json.dumps([_json_of(stats.snapshot_of(one), profile.profile_of(one)) for one in LABELS])


# -- table -----------------------------------------------------------------------------------------


def render_top(count: int | None = None) -> str:
    """A line per label, the longest waiting first, at most `count`; then call sites, if profiled.

    Shares are of the time that all threads together have had since the label's last reset.
    """
    if bare.is_stripped():
        return BUILT_OUT
    threads = stats.thread_count()
    rows = sorted(stats.snapshot(), key=lambda one: (-one.wait_ns, -one.locks, one.label))
    found = {label.name: profile.profile_of(label) for label in LABELS}
    profiled = profile.is_on() or any(one.found for one in found.values())
    head = (
        f"{'LOCK':<12}{'locks':>12}{'locks/s':>11}{'waits':>10}{'waits/s':>10}{'wait ms':>12}"
        f"{'wait %':>8}{'ns/lock':>10}{'longest ms':>12}{'failed up':>11}"
    )
    if profiled:
        head += f"{'hold ms':>12}{'hold %':>8}{'ns/hold':>10}{'longest ms':>12}"
    lines = [head + f"{'since s':>10}"]
    lines += [_row(one, found[one.label] if profiled else None, threads) for one in rows[:count]]
    if profiled:
        for one in rows[:count]:
            sites = found[one.label]
            for what, those in (("wait", sites.wait_sites), ("hold", sites.hold_sites)):
                lines += [
                    f"{one.label:<12}longest {what} {site.longest_ns / 1e6:.3f} ms, {site.count} "
                    f"times {site.total_ns / 1e6:.3f} ms: {site.kind} at {site}"
                    for site in those[:SITES_SHOWN]
                ]
    if not profiled:
        lines.append("# call sites and hold times: set profiling locks on")
    return "\n".join(lines) + "\n"


def _row(one: LockStats, found: LabelProfile | None, threads: int) -> str:
    seconds = max(one.seconds, 1e-9)
    available = seconds * threads * 1e9
    row = (
        f"{one.label:<12}{one.locks:>12}{one.locks / seconds:>11.0f}"
        f"{one.waits:>10}{one.waits / seconds:>10.1f}{one.wait_ns / 1e6:>12.3f}"
        f"{100 * one.wait_ns / available:>8.3f}"
        f"{one.wait_ns / one.locks if one.locks else 0.0:>10.1f}"
        f"{one.longest_wait_ns / 1e6:>12.3f}{one.failed_upgrades:>11}"
    )
    if found is not None:
        count = sum(holds.count for holds in found.holds.values())
        total = sum(holds.total_ns for holds in found.holds.values())
        longest = max(holds.longest_ns for holds in found.holds.values())
        row += (
            f"{total / 1e6:>12.3f}{100 * total / available:>8.3f}"
            f"{total / count if count else 0.0:>10.1f}{longest / 1e6:>12.3f}"
        )
    return row + f"{one.seconds:>10.1f}"


# -- Prometheus ------------------------------------------------------------------------------------

type _Value = Callable[[LockStats, str], int | float]

# name, type, help, value by kind; times in seconds, as Prometheus wants them
_BY_KIND: tuple[tuple[str, str, str, _Value], ...] = (
    (
        "mtproxy_lock_acquisitions_total",
        "counter",
        "Times that locks of this label were taken, by kind of access.",
        lambda one, kind: int(getattr(one, f"{kind}_locks")),
    ),
    (
        "mtproxy_lock_releases_total",
        "counter",
        "Times that locks of this label were given back.",
        lambda one, kind: int(getattr(one, f"{kind}_unlocks")),
    ),
    (
        "mtproxy_lock_waits_total",
        "counter",
        "Times that a thread had to wait for a lock of this label.",
        lambda one, kind: int(getattr(one, f"{kind}_waits")),
    ),
    (
        "mtproxy_lock_wait_seconds_total",
        "counter",
        "Time that threads have waited for locks of this label.",
        lambda one, kind: getattr(one, f"{kind}_wait_ns") / 1e9,
    ),
    (
        "mtproxy_lock_longest_wait_seconds",
        "gauge",
        "The longest single wait since the last reset.",
        lambda one, kind: getattr(one, f"{kind}_longest_wait_ns") / 1e9,
    ),
)

_HOLDS: tuple[tuple[str, str, str, Callable[[profile.Holds], int | float]], ...] = (
    (
        "mtproxy_lock_holds_total",
        "counter",
        "Holds that lock profiling has timed.",
        lambda holds: holds.count,
    ),
    (
        "mtproxy_lock_hold_seconds_total",
        "counter",
        "Time that locks of this label were held, while lock profiling is on.",
        lambda holds: holds.total_ns / 1e9,
    ),
    (
        "mtproxy_lock_longest_hold_seconds",
        "gauge",
        "The longest single hold that lock profiling has timed.",
        lambda holds: holds.longest_ns / 1e9,
    ),
)


def _family(name: str, type_: str, help_: str, samples: Iterable[str]) -> str:
    return f"# HELP {name} {help_}\n# TYPE {name} {type_}\n" + "".join(
        f"{name}{sample}\n" for sample in samples
    )


def render_prometheus() -> str:
    """Everything in Prometheus' text format. Counters go on over a reset; families of hold times
    are there if anything was profiled.
    """
    if bare.is_stripped():
        return ""
    totals = [stats.totals_of(label) for label in LABELS]
    text = "".join(
        _family(
            name,
            type_,
            help_,
            (
                f'{{lock="{one.label}",kind="{kind}"}} {value(one, kind)}'
                for one in totals
                for kind in KINDS
            ),
        )
        for name, type_, help_, value in _BY_KIND
    )
    text += _family(
        "mtproxy_lock_failed_upgrades_total",
        "counter",
        "Readers that could not become seekers, because there was one.",
        (f'{{lock="{one.label}"}} {one.failed_upgrades}' for one in totals),
    )
    profiles = [profile.profile_of(label) for label in LABELS]
    if not (profile.is_on() or any(one.found for one in profiles)):
        return text
    return text + "".join(
        _family(
            name,
            type_,
            help_,
            (
                f'{{lock="{one.label}",kind="{kind}"}} {value(one.holds[kind])}'
                for one in profiles
                for kind in KINDS
            ),
        )
        for name, type_, help_, value in _HOLDS
    )
