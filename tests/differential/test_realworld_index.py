"""The index of `realworld` is true: every id exists, runs beside HAProxy and is about its construct."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.differential import endings_table, families
from tests.differential.realworld import INDEX, WRITTEN
from tests.differential.realworld.refused import REFUSED

_TESTS = Path(__file__).parents[1]
#: what tests take, or do, that run both programs
_BESIDE = ("haproxy", "proxy", "program")
#: texts of configurations that tests share
_SHARED = (_TESTS.parent / "mtproxy/testing/configs.py", _TESTS / "differential/bed.py")

CONSTRUCTS = [
    (kind, name, identifier)
    for kind, names in INDEX.items()
    for name, identifiers in names.items()
    for identifier in identifiers
]


@dataclass(frozen=True, slots=True)
class Found:
    """A test by its id: the text that it is made of, and whether HAProxy is asked too."""

    text: str
    beside: bool


@functools.cache
def _module(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _function(identifier: str) -> Found:
    """Raises LookupError when there is no such test function."""
    file, _, name = identifier.partition("::")
    path = _TESTS / file
    if not path.is_file():
        raise LookupError(f"no file {file}")
    for node in _module(path).body:
        if isinstance(node, ast.FunctionDef) and node.name == name and name.startswith("test_"):
            source = path.read_text(encoding="utf-8")
            whole = ast.unparse(node)
            taken = {argument.arg for argument in node.args.args}
            beside = bool(taken & set(_BESIDE)) or "haproxy" in whole
            if "mark.only('mtproxy')" in whole:
                beside = False
            shared = "".join(one.read_text(encoding="utf-8") for one in _SHARED)
            return Found(source + shared, beside)
    raise LookupError(f"no function {name} in {file}")


@functools.cache
def _cases(family: str) -> dict[str, str]:
    """The texts of a family's cases by name."""
    return {
        case.name: "\n".join((case.front, case.back, case.sections, case.settings, *case.commands))
        for case in families.family(family)
    }


def find(identifier: str) -> Found:
    """Raises LookupError when nothing has this id."""
    kind, _, rest = identifier.partition("/")
    if kind == "cases":
        family, _, name = rest.partition("/")
        if family not in families.names():
            raise LookupError(f"no family {family}")
        return Found(_cases(family)[name] + _SHARED[1].read_text(encoding="utf-8"), True)
    if kind == "endings":
        table, _, name = rest.partition("/")
        for ending in {"http": endings_table.HTTP, "tcp": endings_table.TCP}[table]:
            if ending.name == name:
                parts = (ending.front, ending.back, ending.both, ending.sections, ending.server)
                return Found("\n".join(parts), True)
        raise LookupError(f"no ending {name}")
    if kind == "refused":
        return Found(REFUSED[rest][0], True)
    return _function(identifier)


@pytest.mark.parametrize(("kind", "name", "identifier"), CONSTRUCTS)
def test_an_id_is_a_test_beside_haproxy_about_its_construct(
    kind: str, name: str, identifier: str
) -> None:
    found = find(identifier)
    assert found.beside, f"{identifier} runs mtproxy alone"
    word = WRITTEN.get((kind, name), name)
    assert word in found.text, f"{identifier} does not contain '{word}'"


@pytest.mark.parametrize(
    "identifier",
    [
        "cases/none/x",
        "cases/stats/no such case",
        "endings/http/no such ending",
        "endings/none/x",
        "refused/nothing",
        "e2e/test_logs.py::test_that_is_not_there",
        "e2e/no_such_file.py::test_x",
    ],
)
def test_what_does_not_exist_is_found_out(identifier: str) -> None:
    with pytest.raises(LookupError):
        find(identifier)


def test_written_names_constructs() -> None:
    assert {(kind, name) for kind, names in INDEX.items() for name in names} >= WRITTEN.keys()
