"""The index of `realworld` is true: every id exists, runs beside HAProxy and is about its construct."""

from __future__ import annotations

import ast
import functools
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.differential import endings_table, families, whole
from tests.differential.realworld import INDEX, WRITTEN
from tests.differential.realworld.refused import REFUSED

_TESTS = Path(__file__).parents[1]
#: what tests take, or do, that run both programs
_BESIDE = {"haproxy", "proxy", "program"}
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
    """Its text is that of the function and of the module but for other tests. Raises LookupError
    when there is no such test function.
    """
    file, _, name = identifier.partition("::")
    path = _TESTS / file
    if not path.is_file():
        raise LookupError(f"no file {file}")
    source = path.read_text(encoding="utf-8")
    functions: dict[str, ast.FunctionDef] = {}
    texts = [one.read_text(encoding="utf-8") for one in _SHARED]
    for node in _module(path).body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = node
            if node.name.startswith("test_") and node.name != name:
                continue
            texts += [ast.unparse(decorator) for decorator in node.decorator_list]
        texts.append(ast.get_source_segment(source, node) or "")
    if name not in functions or not name.startswith("test_"):
        raise LookupError(f"no function {name} in {file}")
    whole = ast.unparse(functions[name])
    beside = "haproxy" in whole or bool(_taken(name, functions) & _BESIDE)
    return Found("\n".join(texts), beside and "mark.only('mtproxy')" not in whole)


def _taken(name: str, functions: dict[str, ast.FunctionDef]) -> set[str]:
    """The fixtures that a function takes, with those that the module's own ones take."""
    found: set[str] = set()
    left = [name]
    while left:
        one = left.pop()
        if one not in found and one in functions:
            left += [argument.arg for argument in functions[one].args.args]
        found.add(one)
    return found


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
    if kind == "whole":
        return Found(whole.ALL[rest].text, True)
    if kind == "refused":
        return Found(REFUSED[rest].text, True)
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
        "whole/nothing",
        "e2e/test_logs.py::test_that_is_not_there",
        "e2e/no_such_file.py::test_x",
    ],
)
def test_what_does_not_exist_is_found_out(identifier: str) -> None:
    with pytest.raises(LookupError):
        find(identifier)


def test_no_construct_is_without_a_test() -> None:
    assert [
        (kind, name) for kind, names in INDEX.items() for name in names if not names[name]
    ] == []


def test_written_names_constructs() -> None:
    assert {(kind, name) for kind, names in INDEX.items() for name in names} >= WRITTEN.keys()
