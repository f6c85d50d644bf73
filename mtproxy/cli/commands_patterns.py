"""Runtime commands about ACLs and maps: show, get, add, del, set, clear, prepare, commit.

Exports COMMANDS. Answers are HAProxy 2.6's, byte for byte, but for what docs/runtime.md lists. A
list of patterns locks itself (`rules.patterns.reference`); a dump shows it as it was at one moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from mtproxy.cli.runtime import INFO, Answer, CliError, CliSession, Command, Level
from mtproxy.rules.casts import dynamic
from mtproxy.rules.patterns.entries import Entry
from mtproxy.rules.patterns.methods import PatternError, takes
from mtproxy.rules.patterns.reference import PatternExpr, PatternRef, signed
from mtproxy.rules.patterns.store import PatternStore, split_pair
from mtproxy.rules.types import Ip4, Type, Value

MAP, ACL = "map", "acl"
_TITLE: Final = {MAP: "map", ACL: "ACL"}
_WRAP: Final = 1 << 32


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _store(cli: CliSession) -> PatternStore:
    found = cli.runtime.settings.patterns
    return found if isinstance(found, PatternStore) else PatternStore()


def _unknown(kind: str) -> CliError:
    return CliError(f"Unknown {_TITLE[kind]} identifier. Please use #<id> or <file>.")


def _find(cli: CliSession, kind: str, name: str, *, used: bool = True) -> PatternRef:
    """The list called `name`; with `used`, only if it is used as `kind`."""
    ref = _store(cli).find(name) if name else None
    if ref is None or (used and not (ref.for_map if kind == MAP else ref.for_acl)):
        raise _unknown(kind)
    return ref


def _version(args: list[str]) -> tuple[int | None, list[str]]:
    """`@VERSION` and the words behind it; what is no number counts as 0, as in C."""
    if not args or not args[0].startswith("@"):
        return None, args
    digits = ""
    for char in args[0][1:]:
        if not ("0" <= char <= "9"):
            break
        digits += char
    return int(digits or "0") % _WRAP, args[1:]


def _words(args: list[str], count: int) -> list[str]:
    """`args` with empty words for those that are missing."""
    return args + [""] * (count - len(args))


def _number(word: str) -> int | None:
    """The number of an entry, `#0x...`; None: the word is a key."""
    if not word.startswith("#0x"):
        return None
    try:
        return int(word[3:] or "0", 16)
    except ValueError:
        raise CliError("Malformed identifier. Please use #<id> or <file>.") from None


# --- show, get


def _show(kind: str, cli: CliSession, args: list[str]) -> Answer:
    if not args:
        return _list(kind, cli)
    version, args = _version(args)
    ref = _find(cli, kind, _words(args, 1)[0])
    return (
        f"{entry.number:#x} {_text(entry.key)}\n"
        if entry.value is None
        else f"{entry.number:#x} {_text(entry.key)} {_text(entry.value)}\n"
        for entry in ref.entries(version)
    )


def _list(kind: str, cli: CliSession) -> Iterator[str]:
    yield "# id (file) description\n"
    for ref in _store(cli).refs:
        if ref.for_map if kind == MAP else ref.for_acl:
            yield (
                f"{ref.number} ({ref.name}) {ref.display}. curr_ver={ref.current}"
                f" next_ver={ref.next} entry_cnt={ref.entry_count()}\n"
            )


def _get(kind: str, cli: CliSession, args: list[str]) -> Answer:
    name, key = _words(args, 2)[:2]
    if not name or not key:
        raise CliError(f"Missing {_TITLE[kind]} identifier and/or key.")
    ref = _find(cli, kind, name, used=False)
    return [_look_up(kind, expr, _bytes(key)) for expr in ref.exprs if expr.shown]


def _look_up(kind: str, expr: PatternExpr, key: bytes) -> str:
    """One way of using the list, and what it finds."""
    case = "insensitive" if expr.ignore_case else "sensitive"
    line = f"type={expr.method}, case={case}, {'found' if kind == MAP else 'match'}="
    type_ = takes(expr.method)
    value: Value | None = key if type_ in (Type.ANY, Type.STR) else dynamic(key, type_)
    if expr.method == "bool" and value:
        return f"{line}yes, idx=list, {'key' if kind == MAP else 'pattern'}=unknown\n"
    index = expr.index
    entry = None if value is None else index.find(value)
    if entry is None:
        return f"{line}no\n"
    position = expr.ref.exprs.index(expr)
    where = "tree" if index.found_in_tree(entry, entry.keys[position]) else "list"
    if kind == ACL:
        return f'{line}yes, idx={where}, pattern="{_text(entry.key)}"\n'
    return f'{line}yes, idx={where}, key="{_text(entry.key)}", {_value(expr, entry)}\n'


def _value(expr: PatternExpr, entry: Entry) -> str:
    if expr.kind is None or entry.value is None:
        return "value=none"
    kind = {"str": "str", "int": "sint"}.get(expr.kind)
    if kind is None:
        kind = "ipv4" if isinstance(entry.as_ip, Ip4) else "ipv6"
    return f'value="{_text(entry.value)}", type="{kind}"'


# --- changes


def _add(kind: str, cli: CliSession, args: list[str]) -> Answer:
    version, args = _version(args)
    name, key, value = _words(args, 3)[:3]
    if kind == MAP:
        if not name or (cli.payload is None and not (key and value)):
            raise CliError(
                "'add map' expects three parameters (map identifier, key and value)"
                " or one parameter (map identifier) and a payload"
            )
    elif not name or not key:
        raise CliError("'add acl' expects two parameters: ACL identifier and pattern.")
    ref = _find(cli, kind, name, used=False)
    if version is not None and signed(version - ref.next) > 0:
        raise CliError(f"Version number in the future, please use 'prepare {kind}' before.")
    if kind == ACL and ref.has_values:
        raise CliError(
            "This ACL is shared with a map containing samples. "
            "You must use the command 'add map' to add values."
        )
    pairs: Iterator[tuple[bytes, bytes]] = iter([(_bytes(key), _bytes(value))])
    if cli.payload is not None:
        pairs = _payload(kind, cli.payload)
    for one, text in pairs:
        try:
            ref.add(one, text if kind == MAP else None, cli.ctx.tid, version)
        except PatternError as error:
            raise CliError(f"{error}.") from None
    return ""


def _payload(kind: str, payload: str) -> Iterator[tuple[bytes, bytes]]:
    """A key and a value per line."""
    for line in payload.split("\n"):
        if not line:
            continue
        data = _bytes(line)
        key, value = split_pair(data)
        if len(key) == len(data) and kind == MAP:
            raise CliError(f"Missing value for key '{line}'.")
        # blanks at the end belong to the value here, unlike in a file
        yield key, data[len(key) :].lstrip(b" \t") if kind == MAP else value


def _set(cli: CliSession, args: list[str]) -> Answer:
    name, key, value = _words(args, 3)[:3]
    if not name or not key or not value:
        raise CliError("'set map' expects three parameters: map identifier, key and value.")
    ref = _find(cli, MAP, name, used=False)
    number = _number(key)
    if number is not None:
        try:
            found = ref.set_number(number, _bytes(value), cli.ctx.tid)
        except PatternError as error:
            raise CliError(f"{error}.") from None
        if not found:
            raise CliError("key or pattern not found.")
        return ""
    try:
        found = ref.set(_bytes(key), _bytes(value), cli.ctx.tid)
    except PatternError:
        return ""  # as HAProxy, which changes nothing and says nothing
    if not found:
        raise CliError("entry not found.")
    return ""


def _del(kind: str, cli: CliSession, args: list[str]) -> Answer:
    name, key = _words(args, 2)[:2]
    if not name or not key:
        raise CliError(f"This command expects two parameters: {_TITLE[kind]} identifier and key.")
    try:
        ref = _find(cli, kind, name)
    except CliError:
        raise _unknown(MAP) from None
    number = _number(key)
    tid = cli.ctx.tid
    found = ref.delete(_bytes(key), tid) if number is None else ref.delete_number(number, tid)
    if not found:
        raise CliError("Key not found.")
    return ""


def _clear(kind: str, cli: CliSession, args: list[str]) -> Answer:
    version, args = _version(args)
    if not args:
        raise CliError(f"Missing {_TITLE[kind]} identifier.")
    ref = _find(cli, kind, args[0])
    ref.clear(ref.current if version is None else version, cli.ctx.tid)
    return ""


def _prepare(kind: str, cli: CliSession, args: list[str]) -> Answer:
    ref = _find(cli, kind, _words(args, 1)[0])
    number = ref.prepare(cli.ctx.tid)
    return f"{cli.severity_prefix(INFO)}New version created: {number}\n"


def _commit(kind: str, cli: CliSession, args: list[str]) -> Answer:
    version, args = _version(args)
    if version is None:
        raise CliError("Missing version number.")
    if not args:
        raise CliError(f"Missing {_TITLE[kind]} identifier.")
    if not _find(cli, kind, args[0]).commit(version, cli.ctx.tid):
        raise CliError("Version number out of range.")
    return ""


def _commands() -> Iterator[Command]:
    for kind in (ACL, MAP):
        add = "<key> <val>" if kind == MAP else "<pattern>"
        yield Command(
            ("show", kind),
            f"show {kind} [@<ver>] [<{kind}>]",
            f"list available {kind}s, or the entries of one",
            Level.USER,
            partial(_show, kind),
        )
        yield Command(
            ("get", kind),
            f"get {kind} <{kind}> <value>",
            f"what a value finds in this {kind}",
            Level.USER,
            partial(_get, kind),
        )
        yield Command(
            ("add", kind),
            f"add {kind} [@<ver>] <{kind}> {add}",
            "add a map entry (a payload may stand for key and value)"
            if kind == MAP
            else "add a pattern to an acl",
            Level.USER,
            partial(_add, kind),
        )
        yield Command(
            ("del", kind),
            f"del {kind} <{kind}> [<key>|#<ref>]",
            f"delete the entries of a key from this {kind}",
            Level.USER,
            partial(_del, kind),
        )
        yield Command(
            ("clear", kind),
            f"clear {kind} [@<ver>] <{kind}>",
            f"remove all entries of this {kind}",
            Level.USER,
            partial(_clear, kind),
        )
        yield Command(
            ("prepare", kind),
            f"prepare {kind} <{kind}>",
            f"begin a new version of this {kind}, to replace it at once",
            Level.USER,
            partial(_prepare, kind),
        )
        yield Command(
            ("commit", kind),
            f"commit {kind} @<ver> <{kind}>",
            "put a prepared version in the place of the current one",
            Level.USER,
            partial(_commit, kind),
        )
    yield Command(
        ("set", "map"),
        "set map <map> [<key>|#<ref>] <value>",
        "change the value of a map entry",
        Level.USER,
        _set,
    )


COMMANDS: tuple[Command, ...] = tuple(_commands())
