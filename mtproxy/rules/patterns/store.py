"""All lists of patterns of a configuration: by file name, by number; reading of pattern files.

Made while the configuration is read, by the main thread; `finish` numbers the lists. Afterwards
the store itself does not change, and any thread may read it; the lists change (`reference`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mtproxy.base.files import read_whole
from mtproxy.base.location import Location
from mtproxy.rules.patterns.methods import PatternError
from mtproxy.rules.patterns.reference import Changes, PatternRef


class PatternStore:
    """The lists in the order of their numbers (of their making, until `finish`)."""

    __slots__ = ("_wanted", "by_name", "changes", "refs")

    def __init__(self) -> None:
        self.refs: list[PatternRef] = []
        self.by_name: dict[str, PatternRef] = {}
        self.changes = Changes()
        #: files that actions name, and where; they may be loaded further down
        self._wanted: list[tuple[str, str, Location]] = []

    # --- while the configuration is read
    def inline(self, keyword: str, location: Location, number: int | None = None) -> PatternRef:
        """A new list for the patterns of an ACL line. Raises PatternError for a taken number."""
        if number is not None and any(ref.number == number for ref in self.refs):
            raise PatternError("the id is already used")
        display = f"acl '{keyword}' file '{location.file}' line {location.line}"
        ref = PatternRef("", display, changes=self.changes)
        ref.location = location
        ref.for_acl = True
        if number is not None:
            ref.number = number
        self.refs.append(ref)
        return ref

    def file(
        self,
        name: str,
        location: Location,
        *,
        for_map: bool = False,
        for_acl: bool = False,
        two_columns: bool = False,
    ) -> PatternRef:
        """The list of a file, read when it is first asked for. Raises PatternError."""
        ref = self.by_name.get(name)
        user = "map" if for_map else "acl"
        place = f"by {user} at file '{location.file}' line {location.line}"
        if ref is None:
            ref = PatternRef(
                name,
                f"pattern loaded from file '{name}' used {place}",
                has_values=two_columns,
                changes=self.changes,
            )
            ref.location = location
            read_file(ref, name)
            self.by_name[name] = ref
            self.refs.append(ref)
        else:
            if two_columns != ref.has_values:
                have, want = ("two", "one") if ref.has_values else ("one", "two")
                raise PatternError(
                    f'The file "{name}" is already used as {have} column file'
                    f" and cannot be used by as {want} column file."
                )
            ref.display += f", {place}"
        ref.for_map |= for_map
        ref.for_acl |= for_acl
        return ref

    def want(self, name: str, title: str, location: Location) -> None:
        """Note that an action changes a file that something has to load."""
        self._wanted.append((name, title, location))

    def finish(self, warn: Callable[[Location, str], None]) -> None:
        """Number the lists that have no number, in the order in which they were made."""
        for name, title, location in self._wanted:
            if name not in self.by_name:
                warn(
                    location,
                    f"'{title}' : nothing loads the file '{name}', so this changes nothing",
                )
        taken = {ref.number for ref in self.refs}
        free = (number for number in range(len(taken) + len(self.refs)) if number not in taken)
        for ref in self.refs:
            if ref.number < 0:
                ref.number = next(free)
            # names of hosts are resolved now or never
            for expr in ref.exprs:
                expr.dns = False
        self.refs.sort(key=lambda ref: ref.number)

    # --- afterwards
    def find(self, name: str) -> PatternRef | None:
        """By file name, or by `#number`."""
        if not name.startswith("#"):
            return self.by_name.get(name)
        digits = name[1:].strip()
        if not (digits.isascii() and digits.isdigit()):
            return None
        number = int(digits) if len(digits) < 12 else -1
        return next((ref for ref in self.refs if ref.number == number), None)


def read_file(ref: PatternRef, name: str) -> None:
    """Append the patterns of a file to an empty list. Raises PatternError."""
    try:
        data = read_whole(name)
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise PatternError(f"failed to open pattern file <{name}> ({reason})") from None
    for number, line in enumerate(lines(data), 1):
        # a comment begins in the first column; C strings end at a NUL
        if line.startswith(b"#"):
            continue
        text = line.partition(b"\0")[0].lstrip(b" \t")
        if not text:
            continue
        if not ref.has_values:
            ref.load(text, None, number)
            continue
        key, value = split_pair(text)
        ref.load(key, value, number)


def lines(data: bytes) -> Iterator[bytes]:
    """Lines without their end: a line feed, or what stands before a carriage return."""
    if data.endswith(b"\n"):
        data = data[:-1]
    for line in data.split(b"\n") if data else ():
        yield line.partition(b"\r")[0]


def split_pair(text: bytes) -> tuple[bytes, bytes]:
    """Key and value of a map's line: the first word, and the rest without blanks around it."""
    end = next((at for at, char in enumerate(text) if char in b" \t"), len(text))
    return text[:end], text[end:].strip(b" \t")
