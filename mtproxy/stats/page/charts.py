"""Small charts of the last minute as inline SVG: threads and locks (see `stats.history`). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from mtproxy.stats.history import SPAN

if TYPE_CHECKING:
    from mtproxy.stats.runtime import Runtime

_HEIGHT: Final = 24


def chart(values: Sequence[float], highest: float, title: str) -> str:
    """The values as an area, the newest at the right. `highest` is the top of the chart; what is
    above it is cut off.
    """
    top = max(highest, 1e-9)
    points = []
    start = SPAN - len(values)
    for number, value in enumerate(values):
        height = min(1.0, max(0.0, value / top)) * _HEIGHT
        points.append(f"{start + number},{_HEIGHT - height:.1f}")
    line = " ".join(points)
    shapes = ""
    if points:
        last = start + len(values) - 1
        area = f"{start},{_HEIGHT} {line} {last},{_HEIGHT}"
        shapes = f'<polygon class="area" points="{area}"/><polyline class="peak" points="{line}"/>'
    return (
        f'<svg viewBox="0 0 {SPAN - 1} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{shapes}</svg>'
    )


def panels(runtime: Runtime) -> Iterator[str]:
    """The panel of the threads and that of the locks."""
    yield '<div class="panels">'
    yield from _threads(runtime)
    yield from _locks(runtime)
    yield "</div>\n"


def _threads(runtime: Runtime) -> Iterator[str]:
    yield (
        '<div class="panel" id="threads"><h2>Threads <small>the last minute</small></h2><table>'
        '<thead><tr><th class="name">Thread</th><th>Load</th><th>In poll</th>'
        "<th>Tasklets/loop</th><th>Loops/s</th><th>µs/loop</th></tr></thead>\n"
    )
    history = runtime.history.threads()
    most = max((p.per_loop for points in history for p in points), default=1.0)
    for ctx, points in zip(runtime.pool.contexts, history, strict=True):
        name = f"thread {ctx.tid + 1}"
        if not points:
            yield (
                f'<tbody><tr class="thread"><td class="name">{name}</td>'
                '<td class="text" colspan="5">no second has passed yet</td></tr></tbody>\n'
            )
            continue
        now = points[-1]
        load = chart([p.busy for p in points], 100.0, f"{name}: load in percent")
        tasklets = chart(
            [p.per_loop for p in points], most, f"{name}: tasklets per loop, up to {most:.1f}"
        )
        polling = chart([p.polling for p in points], 100.0, f"{name}: time in poll in percent")
        yield (
            f'<tbody><tr class="thread"><td class="name">{name}</td><td>{now.busy:.0f} %</td>'
            f"<td>{now.polling:.0f} %</td><td>{now.per_loop:.2f}</td><td>{now.loops:,.0f}</td>"
            f"<td>{now.turn_us:.0f}</td></tr>"
            f"<tr><td></td><td>{load}</td><td>{polling}</td><td>{tasklets}</td><td></td><td></td>"
            "</tr></tbody>\n"
        )
    yield "</table></div>\n"


def _locks(runtime: Runtime) -> Iterator[str]:
    yield (
        '<div class="panel" id="locks"><h2>Locks <small>ms waited per second, by label</small></h2>'
        '<table><thead><tr><th class="name">Lock</th><th>now</th><th>most</th><th>last minute</th>'
        "</tr></thead><tbody>\n"
    )
    history = runtime.history.locks()
    highest = max((max(points, default=0.0) for points in history.values()), default=0.0)
    idle = []
    for name, points in history.items():
        now, most = (points[-1], max(points)) if points else (0.0, 0.0)
        if not most:
            idle.append(name)
            continue
        title = f"{name}: ms waited per second"
        yield (
            f'<tr class="lock"><td class="name">{escape(name)}</td><td>{now:.3f}</td>'
            f"<td>{most:.3f}</td><td>{chart(points, highest, title)}</td></tr>\n"
        )
    if idle:
        yield (
            '<tr class="idle"><td class="text" colspan="4">nobody waited for '
            f"{escape(', '.join(idle))}</td></tr>\n"
        )
    yield "</tbody></table></div>\n"
