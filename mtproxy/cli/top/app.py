"""The live view of `mtproxy top`, drawn by the library Textual.

Everything on the screen belongs to the loop of the application; questions to the proxy run in a
worker thread, one at a time, and come back by `call_from_thread`. A proxy that does not answer any
more is said so on the screen, with the last figures below, until it answers again.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Sparkline, Static

from mtproxy.cli.client import ClientError, ask_checked
from mtproxy.cli.top.figures import Rates, Snapshot, product_of, take
from mtproxy.cli.top.tables import MOST_ROWS, TABLES, Row, Table, arrange, clean, short

#: looks that the curve above the table goes back
HISTORY = 120
#: seconds between two looks, from the keys + and -
INTERVALS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)

_COLOURS = {"good": "green", "warn": "yellow", "bad": "red bold", "": ""}


class Confirm(ModalScreen[bool]):
    """Asks whether something shall be done; its result is the answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "yes"),
        Binding("n,escape,q,enter", "dismiss(False)", "no"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog"):
            yield Static(Text(self.question))
            yield Static(Text("y: yes    n, escape: no", style="dim"))


class Help(ModalScreen[None]):
    """The keys, and what the columns of a table mean."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,enter", "dismiss", "close")
    ]

    def __init__(self, table: Table) -> None:
        super().__init__()
        self.table = table

    def compose(self) -> ComposeResult:
        text = Text()
        for key, what in (
            ("1 2 3 4", "proxies, servers, threads, locks"),
            ("enter, escape", "into a backend, and back"),
            ("s, S, r", "sort by the next or previous column; turn the order round"),
            ("d, e", "disable or enable the marked server; you are asked first"),
            ("space, + -", "hold and go on; look more often or less"),
            ("q", "quit"),
        ):
            text.append(f"{key:<15}", style="bold")
            text.append(f"{what}\n")
        text.append(f"\nColumns of {self.table.name}\n", style="bold")
        for column in self.table.columns:
            text.append(f"{column.title:<15}", style="bold")
            text.append(f"{column.help}\n")
        with Vertical(id="dialog"):
            yield Static(text)


class TopApp(App[None]):
    """`first` is a look at the proxy that has succeeded. Times in seconds."""

    TITLE = "mtproxy top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { height: 2; padding: 0 1; }
    #curve { height: 2; padding: 0 1; }
    #curve > Static { width: 14; }
    #curve > Sparkline { width: 1fr; height: 2; }
    #where { height: 1; padding: 0 1; background: $panel; }
    DataTable { height: 1fr; }
    ModalScreen { align: center middle; }
    #dialog { width: 84; max-width: 100%; height: auto; max-height: 100%; padding: 1 2;
              border: round $accent; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("1", "table('proxies')", "proxies"),
        Binding("2", "table('servers')", "servers"),
        Binding("3", "table('threads')", "threads"),
        Binding("4", "table('locks')", "locks"),
        Binding("escape,backspace", "leave", "back"),
        Binding("s", "sort(1)", "sort"),
        Binding("S", "sort(-1)", "sort back", show=False),
        Binding("r", "reverse", "reverse"),
        Binding("d", "switch_server('disable')", "disable"),
        Binding("e", "switch_server('enable')", "enable"),
        Binding("space", "hold", "hold"),
        Binding("plus", "pace(-1)", "faster", show=False),
        Binding("minus", "pace(1)", "slower", show=False),
        Binding("question_mark", "keys", "keys"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, address: str, first: Snapshot, *, interval: float, timeout: float) -> None:
        super().__init__()
        self.address = address
        self.interval = interval
        self.answer_time = timeout
        self.rates = Rates(None, first)
        self.table = TABLES["proxies"]
        #: the backend that the table of servers shows; "": all
        self.backend = ""
        self.column = self.table.sorted_by
        self.reverse = False
        self.held = False
        #: what went wrong at the last look, or ""
        self.trouble = ""
        self.history: deque[float] = deque([0.0] * HISTORY, HISTORY)
        #: the rows on the screen, as they stand there
        self.shown: list[Row] = []
        self._asking = False
        self._timer: Any = None

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        with Horizontal(id="curve"):
            yield Static(id="rate")
            yield Sparkline(list(self.history), summary_function=max)
        yield Static(id="where")
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Footer()

    def on_mount(self) -> None:
        self._draw(new_table=True)
        self._timer = self.set_interval(self.interval, self._look)
        self.query_one(DataTable).focus()

    # -- looking

    def _look(self) -> None:
        if not self.held and not self._asking:
            self._asking = True
            self._ask()

    @work(thread=True, exclusive=True, group="look")
    def _ask(self) -> None:
        """On a worker thread."""
        try:
            found: Snapshot | str = take(self.address, self.answer_time)
        except ClientError as error:
            found = str(error)
        self.call_from_thread(self._take_in, found)

    def _take_in(self, found: Snapshot | str) -> None:
        self._asking = False
        if isinstance(found, str):
            self.trouble = found
        else:
            self.trouble = ""
            before: Snapshot | None = self.rates.now
            if before and before.info.get("Pid") != found.info.get("Pid"):
                before = None  # another process: its counters began anew
            self.rates = Rates(before, found)
            self.history.append(self.rates.all_requests())
        self._draw()

    # -- drawing

    def _draw(self, new_table: bool = False) -> None:
        self.query_one("#head", Static).update(self._head())
        self.query_one("#rate", Static).update(Text(f"{short(self.history[-1])} req/s", "bold"))
        self.query_one(Sparkline).data = list(self.history)
        self.query_one("#where", Static).update(self._where())
        self._draw_table(new_table)

    def _head(self) -> Text:
        info = self.rates.now.info
        text = Text(no_wrap=True, overflow="ellipsis")
        if self.trouble:
            text.append(f"no answer: {clean(self.trouble)}\n", style="bold red")
        else:
            text.append(clean(product_of(info)), style="bold")
            text.append(clean(f" on {info.get('node', '?')}, pid {info.get('Pid', '?')}, "))
            text.append(clean(f"up {info.get('Uptime', '?')}, {info.get('Nbthread', '?')} threads"))
            if info.get("Stopping", "0") != "0":
                text.append("  STOPPING", style="bold yellow")
            text.append("\n")
        lost = info.get("DroppedLogs", "0")
        text.append(
            clean(
                f"connections {info.get('CurrConns', '?')} of {info.get('Maxconn', '?')}, "
                f"{info.get('ConnRate', '?')}/s new; idle {info.get('Idle_pct', '?')} %; "
                f"tasks {info.get('Tasks', '?')}, run queue {info.get('Run_queue', '?')}"
            )
        )
        if lost not in ("", "0"):
            text.append(clean(f"; {lost} log messages lost"), style="yellow")
        return text

    def _where(self) -> Text:
        name = self.table.name
        if self.backend and name == "servers":
            name = f"servers of {clean(self.backend)}"
        text = Text(name, style="bold", no_wrap=True, overflow="ellipsis")
        if self.column >= 0:
            order = ", turned round" if self.reverse else ""
            text.append(f"  by {self.table.columns[self.column].title}{order}", style="dim")
        if self.held:
            text.append("  held: space goes on", style="bold yellow")
        else:
            text.append(f"  every {self.interval:g} s", style="dim")
        text.append(f"  {clean(self.address)}", style="dim")
        return text

    def _draw_table(self, new_table: bool) -> None:
        """The rows, with the cursor where it was: on the same row, not in the same line."""
        widget = self.query_one(DataTable)
        marked = None if new_table else self._marked()
        if new_table:
            widget.clear(columns=True)
            for index, column in enumerate(self.table.columns):
                title = Text(column.title, style="reverse" if index == self.column else "")
                widget.add_column(title, key=str(index))
        else:
            widget.clear()
        rows = self.table.rows(self.rates, self.backend)
        numeric = self.column >= 0 and self.table.columns[self.column].numeric
        self.shown = arrange(rows, self.column, numeric, self.reverse)[:MOST_ROWS]
        for row in self.shown:
            style = _COLOURS[row.level]
            widget.add_row(
                *(
                    Text(cell.text, style=style, justify="right" if column.numeric else "left")
                    for cell, column in zip(row.cells, self.table.columns, strict=True)
                )
            )
        if marked is not None:
            for line, row in enumerate(self.shown):
                if row.key == marked.key:
                    widget.move_cursor(row=line, animate=False)
                    break

    def _marked(self) -> Row | None:
        line = self.query_one(DataTable).cursor_row
        return self.shown[line] if 0 <= line < len(self.shown) else None

    # -- keys

    def action_table(self, name: str) -> None:
        self._go(name, "")

    def _go(self, name: str, backend: str) -> None:
        self.backend = backend
        if TABLES[name] is not self.table:
            self.table = TABLES[name]
            self.column = self.table.sorted_by
            self.reverse = False
        self._draw(new_table=True)

    def on_data_table_row_selected(self, _event: DataTable.RowSelected) -> None:
        """Enter: the servers of the marked backend."""
        row = self._marked()
        if row is not None and self.table.name == "proxies":
            name = row.key[0]
            if any(key[0] == name for key, _ in self.rates.now.of_type("2")):
                self._go("servers", name)
            else:
                self.notify(f"{clean(name)} has no servers of its own")

    def action_leave(self) -> None:
        self._go("proxies", "")

    def action_sort(self, step: int) -> None:
        """Behind the last column comes the order of the configuration."""
        self.column = (self.column + 1 + step) % (len(self.table.columns) + 1) - 1
        self.reverse = False
        self._draw(new_table=True)

    def action_reverse(self) -> None:
        self.reverse = not self.reverse
        self._draw(new_table=True)

    def action_hold(self) -> None:
        self.held = not self.held
        self._draw()

    def action_pace(self, step: int) -> None:
        slower = [i for i in INTERVALS if i > self.interval]
        faster = [i for i in INTERVALS if i < self.interval]
        if step > 0 and slower:
            self.interval = slower[0]
        elif step < 0 and faster:
            self.interval = faster[-1]
        self._timer.stop()
        self._timer = self.set_interval(self.interval, self._look)
        self._draw()

    def action_keys(self) -> None:
        self.push_screen(Help(self.table))

    def action_switch_server(self, verb: str) -> None:
        """Disable or enable the marked server, once that was confirmed."""
        row = self._marked()
        if row is None or self.table.name != "servers":
            self.notify("mark a server first: 2 lists them, enter goes into a backend")
            return
        proxy, server = row.key[0], row.key[1].rpartition("/")[0]

        def go(yes: bool | None) -> None:
            if yes:
                self._order(f"{verb} server {proxy}/{server}", f"{clean(proxy)}/{clean(server)}")

        status = row.cells[2].text
        effect = "no new sessions, no checks" if verb == "disable" else "ready for sessions again"
        self.push_screen(
            Confirm(f"{verb} {clean(proxy)}/{clean(server)} (now {status}): {effect}?"), go
        )

    @work(thread=True, group="order")
    def _order(self, command: str, name: str) -> None:
        """On a worker thread."""
        try:
            answer, failed = ask_checked(self.address, command, self.answer_time)
        except ClientError as error:
            answer, failed = str(error), True
        self.call_from_thread(self._ordered, command, name, answer.strip(), failed)

    def _ordered(self, command: str, name: str, answer: str, failed: bool) -> None:
        verb = command.partition(" ")[0]
        if failed:
            self.notify(f"{name}: {clean(answer) or 'refused'}", severity="error", markup=False)
        else:
            self.notify(f"{name}: {verb}d", markup=False)
        self._look()
