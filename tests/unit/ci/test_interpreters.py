"""Which interpreter is chosen, with executables that only say what they are."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from toolchain import build, interpreters, paths
from toolchain.interpreters import Unusable, choose, inspect
from toolchain.say import Failure

Fake = Callable[..., Path]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    """`fake("where/bin/python3.13t", version=..., free_threaded=...)` makes an executable."""

    def make(
        where: str, *, version: tuple[int, int, int] = (3, 13, 15), free_threaded: bool = True
    ) -> Path:
        path = tmp_path / where
        path.parent.mkdir(parents=True, exist_ok=True)
        answer = {"executable": str(path), "version": version, "free_threaded": free_threaded}
        path.write_text(f"#!/bin/sh\ncat <<'E'\n{json.dumps(answer)}\nE\n")
        path.chmod(0o755)
        return path

    return make


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MTPROXY_CACHE", str(tmp_path / "cache"))
    interpreters._from_cache.cache_clear()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment in which nothing of the real machine is found, and nothing is built."""

    def no_build(flavour: str) -> Path:
        raise Failure(f"would build {flavour}", "in a test: do not")

    monkeypatch.setattr(build, "build", no_build)
    return {"PATH": f"{tmp_path / 'a'}:{tmp_path / 'b'}", "HOME": str(tmp_path / "home")}


def cached(fake: Fake, name: str) -> Path:
    path = fake(f"cache/{name}/bin/python3.13t")
    (path.parent.parent / build.MARKER).write_text("{}")
    return path


def uv(fake: Fake, found: Path | None, installs: Path | None = None) -> None:
    """A uv that finds an interpreter, or only after it installed one."""
    script = fake("a/uv")
    script.write_text(
        "#!/bin/sh\n"
        f'if [ "$2" = install ]; then [ -n "{installs or ""}" ] && touch "$0.installed"; exit; fi\n'
        f'if [ -n "{found or ""}" ]; then echo "{found}"; exit 0; fi\n'
        f'if [ -e "$0.installed" ]; then echo "{installs}"; exit 0; fi\n'
        "exit 2\n"
    )


def test_the_order_of_places(fake: Fake, machine: dict[str, str]) -> None:
    places = {
        "MTPROXY_PYTHON": fake("own/python"),
        "PATH": fake("a/python3.13t"),
        "pyenv": fake("home/.pyenv/versions/3.13.15t/bin/python3.13t"),
        "uv": fake("uv-managed/bin/python3.13t"),
        "built earlier, plain": cached(fake, "python-3.13.15t-plain"),
    }
    uv(fake, places["uv"])
    machine["MTPROXY_PYTHON"] = str(places["MTPROXY_PYTHON"])
    for origin, path in places.items():
        found = choose(machine)
        assert (found.path, found.origin) == (path, origin)
        # Without the best place the next one is chosen.
        machine.pop("MTPROXY_PYTHON", None)
        path.unlink()
        interpreters._from_cache.cache_clear()


def test_uv_is_asked_to_install_before_anything_is_built(
    fake: Fake, machine: dict[str, str]
) -> None:
    installs = fake("uv-managed/bin/python3.13t")
    uv(fake, None, installs)
    machine["PATH"] += ":/usr/bin:/bin"  # the script needs touch
    found = choose(machine)
    assert (found.path, found.origin) == (installs, "uv")


def test_where_uv_cannot_install_it_is_built(fake: Fake, machine: dict[str, str]) -> None:
    uv(fake, None, None)
    with pytest.raises(Failure, match="would build plain"):
        choose(machine)


def test_a_machine_with_nothing_builds(machine: dict[str, str]) -> None:
    with pytest.raises(Failure, match="would build plain"):
        choose(machine)


def test_path_is_searched_beyond_a_candidate_that_will_not_do(
    fake: Fake, machine: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    broken = fake("a/python3.13t")
    broken.write_text("#!/bin/sh\necho 'pyenv: python3.13t: command not found' >&2\nexit 127\n")
    good = fake("b/python3.13t")
    assert choose(machine).path == good
    assert "pyenv: python3.13t: command not found" in capsys.readouterr().err


def test_a_build_with_the_gil_is_passed_over(fake: Fake, machine: dict[str, str]) -> None:
    fake("a/python3.13t", free_threaded=False)
    good = fake("b/python3.13t")
    assert choose(machine).path == good


def test_pyenv_gives_its_newest_version(fake: Fake, machine: dict[str, str]) -> None:
    for version in ("3.13.9t", "3.13.16t", "3.13.15t"):
        fake(f"pyenv/versions/{version}/bin/python3.13t")
    machine["PYENV_ROOT"] = str(fake("pyenv/shims/x").parent.parent)
    assert "/3.13.16t/" in str(choose(machine).path)


def test_an_old_release_is_taken_with_a_word_about_it(
    fake: Fake, machine: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    fake("a/python3.13t", version=(3, 13, 5))
    assert choose(machine).version == (3, 13, 5)
    assert "3.13.15 fixes crashes" in capsys.readouterr().err


def test_asked_for_by_path_with_the_gil_is_allowed(
    fake: Fake, machine: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    machine["MTPROXY_PYTHON"] = str(fake("own/python3.13", free_threaded=False))
    assert not choose(machine).free_threaded
    assert "is a build with the GIL" in capsys.readouterr().err


@pytest.mark.parametrize("version", [(3, 12, 9), (3, 14, 0)])
def test_asked_for_by_path_but_not_3_13_is_an_error(
    fake: Fake, machine: dict[str, str], version: tuple[int, int, int]
) -> None:
    fake("a/python3.13t")  # it does not fall back to another one
    machine["MTPROXY_PYTHON"] = str(fake("own/python", version=version))
    with pytest.raises(Failure, match=rf"it is Python 3\.{version[1]}, not 3\.13"):
        choose(machine)


def test_asked_for_but_missing_is_an_error(machine: dict[str, str]) -> None:
    machine["MTPROXY_PYTHON"] = "/nonexistent/python3.13t"
    with pytest.raises(Failure, match="it does not run"):
        choose(machine)


def test_a_flavour_can_be_asked_for_by_name(fake: Fake, machine: dict[str, str]) -> None:
    cached(fake, "python-3.13.15t-plain")
    optimized = cached(fake, "python-3.13.15t-optimized")
    machine["MTPROXY_PYTHON"] = "optimized"
    assert choose(machine).path == optimized


def test_the_newest_finished_build_is_taken(fake: Fake, tmp_path: Path) -> None:
    assert build.built("plain") is None
    for name in ("python-3.13.9t-plain", "python-3.13.15t-plain", "python-3.13.12t-optimized"):
        cached(fake, name)
    fake("cache/python-3.13.16t-plain/bin/python3.13t")  # no marker: not finished
    assert build.built("plain") == tmp_path / "cache/python-3.13.15t-plain/bin/python3.13t"
    assert build.built("optimized") == tmp_path / "cache/python-3.13.12t-optimized/bin/python3.13t"


def test_the_interpreter_of_these_tests_answers_for_what_it_was_made_from() -> None:
    found = inspect(sys.executable, "here")
    assert found.version == sys.version_info[:3]
    # .venv/bin/python leads back to the interpreter, so an activated .venv is no other choice
    assert found.path.samefile(Path(sys.base_exec_prefix) / "bin" / found.path.name)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 3", "exit code 3"),
        ("echo hello", "it answers 'hello'"),
        ("echo '{}'", "it answers '{}'"),
        ("echo 'ModuleNotFoundError: no ssl' >&2; exit 1", "no ssl"),
    ],
)
def test_what_does_not_answer_is_unusable(tmp_path: Path, script: str, reason: str) -> None:
    path = tmp_path / "python3.13t"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    with pytest.raises(Unusable, match=reason):
        inspect(path, "here")


def test_the_cache_is_where_the_environment_says() -> None:
    assert paths.cache({"MTPROXY_CACHE": "/x/y"}) == Path("/x/y")
    assert paths.cache({"XDG_CACHE_HOME": "/x"}) == Path("/x/mtproxy")
    assert paths.cache({}) == Path("~/.cache/mtproxy").expanduser()
