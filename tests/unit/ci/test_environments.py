"""When an environment is made, made again, brought up to date, or left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from toolchain import environments, interpreters, packages, paths, say
from toolchain.interpreters import Interpreter
from toolchain.say import Failure


class Checkout:
    """A checkout in which every command is only noted, and leaves the files that it would."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.commands: list[str] = []
        self.interpreter = Interpreter(root / "python3.13t", (3, 13, 15), True, "here")
        self.interpreter.path.write_text("one build")
        self.requirements = root / ".ci" / "requirements-dev.txt"
        self.requirements.parent.mkdir()
        self.requirements.write_text("h11==0.16.0 \\\n    --hash=sha256:00\n")
        (root / "pyproject.toml").write_text("[project]\n")

    def run(self, command: list[str], **_: object) -> None:
        words = [str(word) for word in command]
        if "venv" in words:
            self.commands.append("create")
            folder = Path(words[-1])
            (folder / "bin").mkdir(parents=True)
            (folder / "pyvenv.cfg").touch()
            (folder / "bin" / "python").touch()
        elif "--editable" in words:
            self.commands.append("editable")
            (self.root / ".venv" / "bin" / "mtproxy").touch()
        else:
            assert "--require-hashes" in words
            self.commands.append("requirements")

    def venv(self) -> list[str]:
        """Bring `.venv` up to date and return what that took."""
        self.commands.clear()
        assert environments.venv() == self.root / ".venv"
        return list(self.commands)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    made = Checkout(tmp_path)
    monkeypatch.setenv("MTPROXY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MTPROXY_VENV", raising=False)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setattr(paths, "TOOLS", tmp_path / ".tools")
    monkeypatch.setattr(environments, "DEV", made.requirements)
    monkeypatch.setattr(environments, "_check_gil", lambda *_: None)
    monkeypatch.setattr(interpreters, "choose", lambda: made.interpreter)
    monkeypatch.setattr(say, "run", made.run)
    return made


EVERYTHING = ["create", "requirements", "editable"]


def test_made_once_then_left_alone(checkout: Checkout) -> None:
    assert checkout.venv() == EVERYTHING
    assert checkout.venv() == []


def test_other_requirements_make_it_anew(checkout: Checkout) -> None:
    checkout.venv()
    checkout.requirements.write_text("h11==0.16.1\n")
    assert checkout.venv() == EVERYTHING
    assert checkout.venv() == []


def test_another_interpreter_makes_it_anew(checkout: Checkout) -> None:
    checkout.venv()
    other = checkout.root / "other" / "python3.13t"
    other.parent.mkdir()
    other.write_text("one build")
    checkout.interpreter = Interpreter(other, (3, 13, 15), True, "here")
    assert checkout.venv() == EVERYTHING


def test_another_build_of_the_same_name_makes_it_anew(checkout: Checkout) -> None:
    checkout.venv()
    checkout.interpreter.path.write_text("another build")
    assert checkout.venv() == EVERYTHING


def test_where_it_was_found_does_not_matter(checkout: Checkout) -> None:
    checkout.venv()
    old = checkout.interpreter
    checkout.interpreter = Interpreter(old.path, old.version, old.free_threaded, "elsewhere")
    assert checkout.venv() == []


def test_another_pyproject_installs_the_project_alone(checkout: Checkout) -> None:
    checkout.venv()
    (checkout.root / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert checkout.venv() == ["editable"]


def test_a_missing_command_installs_the_project_alone(checkout: Checkout) -> None:
    checkout.venv()
    (checkout.root / ".venv" / "bin" / "mtproxy").unlink()
    assert checkout.venv() == ["editable"]


def test_an_interrupted_start_is_made_anew(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(environments, "_check_gil", interrupted)
        with pytest.raises(KeyboardInterrupt):
            environments.venv()
    assert checkout.venv() == EVERYTHING


def test_what_is_no_environment_is_never_removed(checkout: Checkout) -> None:
    precious = checkout.root / ".venv" / "precious"
    precious.parent.mkdir()
    precious.touch()
    with pytest.raises(Failure, match="is in the way"):
        environments.venv()
    assert precious.exists()


def test_a_compiler_is_asked_for_where_there_is_none(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    monkeypatch.setattr(packages, "need", asked.append)
    checkout.venv()
    assert asked == [packages.COMPILER]
