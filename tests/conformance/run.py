"""HAProxy's own regression tests, with mtproxy (or any other program) under test.

    make conformance
    make conformance ARGS="--only 'http-messaging/*' --why"
    python tests/conformance/run.py --program haproxy --json result.json

The tests are HAProxy's (GPL) and never part of this repository: they are downloaded once with
`apt-get source haproxy` into the cache folder, and run by `varnishtest` from Debian's package
varnish. Each test is one varnishtest process; everything that it leaves behind is found by a mark
in its environment and ended.

Exit code: 1 if a test that has to pass (expected.txt beside this file) did not, or, for another
program than mtproxy, if any test failed; 77 if the tests or varnishtest cannot be had.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
for _folder in (str(ROOT), str(ROOT / ".ci")):
    if _folder not in sys.path:
        sys.path.insert(0, _folder)

from mtproxy import __version__  # noqa: E402
from mtproxy.testing import procfs  # noqa: E402
from mtproxy.testing.program import command_of, environment, find_tool  # noqa: E402
from toolchain import aptsource, packages, paths, say  # noqa: E402

EXPECTED = Path(__file__).with_name("expected.txt")
MARK = "MTPROXY_CONFORMANCE_RUN"
UNAVAILABLE = 77
#: tests that ask for a feature which HAProxy needs for what mtproxy does by other means: digests
#: are Python's, so these need no TLS library
OTHER_MEANS = {
    "OPENSSL": {
        "converter/digest.vtc",
        "converter/hmac.vtc",
        "converter/secure_memcmp.vtc",
        "converter/sha2.vtc",
        "jwt/jws_verify.vtc",
        "server/cli_add_check_server.vtc",
        "server/cli_add_track_server.vtc",
    }
}
#: tests in which one client's idle server connection has to serve the next client: here such a
#: connection belongs to a thread, so they are run on one CPU, where there is one thread
ONE_CPU = {
    "connection/http_reuse_aggressive.vtc",
    "connection/http_reuse_always.vtc",
    "connection/http_reuse_safe.vtc",
}
#: test types that HAProxy's own runner takes when it is not told otherwise
_TYPES = ("default", "bug", "devel", "slow")


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """One test's outcome: "passed", "failed" or "skipped"; `reason` is empty for the passed."""

    name: str
    outcome: str
    seconds: float
    reason: str = ""
    #: the word of the configuration that the program refused, if that is why
    word: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Abilities:
    """What the program says of itself with -vv: the tests' requirements are held against it."""

    version: str
    target: str
    features: frozenset[str]
    services: frozenset[str]


# -- getting the tests


def suite_folder() -> Path:
    """The folder that holds `reg-tests`, downloaded and unpacked if need be."""
    base = paths.cache() / "haproxy-source"
    ready = base / "ready"
    if ready.is_file():
        folder = Path(ready.read_text().strip())
        if folder.is_dir():
            return folder
    with paths.locked(base / "lock", "downloading HAProxy's tests"):
        say.step("downloading HAProxy's regression tests (apt-get source haproxy)")
        log = paths.log_file("haproxy-source")
        archive = aptsource.fetch("haproxy", None, base / "packed", log)
        target = Path(base / archive.name.partition(".orig")[0])
        part = base / "unpacking"
        shutil.rmtree(part, ignore_errors=True)
        with tarfile.open(archive) as tar:
            members = [m for m in tar.getmembers() if "/reg-tests/" in m.name]
            tar.extractall(part, members, filter="data")
        (top,) = part.iterdir()
        shutil.rmtree(target, ignore_errors=True)
        top.rename(target)
        part.rmdir()
        ready.write_text(f"{target}\n")
    return target


def all_tests(suite: Path) -> list[str]:
    """Names like `balance/balance-rr.vtc`, sorted."""
    top = suite / "reg-tests"
    return sorted(str(path.relative_to(top)) for path in top.rglob("*.vtc"))


def expected() -> list[str]:
    """The tests that have to pass."""
    lines = EXPECTED.read_text().splitlines() if EXPECTED.exists() else []
    return [word for line in lines if (word := line.partition("#")[0].strip())]


# -- what a test requires


def described(program: str, able: Abilities) -> str:
    """The program with its version; mtproxy has one of its own beside the level of its language."""
    if program == "mtproxy":
        return f"mtproxy {__version__} (as HAProxy {able.version})"
    return f"{program} {able.version}"


def verdict(results: Sequence[Result], must: Sequence[str], suite_size: int) -> list[str]:
    """What came out, in words: of the whole suite, and of the list of those that have to pass."""
    passed = {r.name for r in results if r.outcome == "passed"}
    lines = []
    if len(results) == suite_size:
        lines.append(f"{len(passed)} of the suite's {suite_size} tests pass")
    else:
        lines.append(
            f"{len(passed)} of the {len(results)} tests that were run pass "
            f"(the suite has {suite_size})"
        )
    ran = [r.name for r in results if r.name in must]
    if ran:
        good = sum(name in passed for name in ran)
        result = "all pass" if good == len(ran) else f"only {good} do: the run FAILED"
        lines.append(
            f"of the {len(must)} that have to pass (expected.txt), {len(ran)} were run: {result}"
        )
    return lines


def abilities(program: str, arguments: str) -> Abilities:
    """Raises say.Failure when the program does not even tell its version."""
    command = [program, *arguments.split(), "-vv"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    # the level of the language counts, not a version of the program's own
    version = re.search(r"HA-?Proxy version (\S+)", done.stdout)
    if version is None:
        raise say.Failure(
            f"`{' '.join(command)}` tells no version: {(done.stderr or done.stdout)[-500:]}",
            "see that the program starts",
        )

    def words(title: str) -> frozenset[str]:
        found = re.search(rf"^\s*{title}\s*[:=](.*)$", done.stdout, re.MULTILINE)
        return frozenset(found[1].split()) if found else frozenset()

    target = next(iter(words("TARGET")), "")
    return Abilities(version[1], target, words("Feature list"), words("Available services"))


def _numbers(version: str) -> tuple[int, ...]:
    words = re.findall(r"\d+", version.partition("-")[0])[:4]
    return tuple(int(word) for word in words + ["0"] * (4 - len(words)))


def why_not(path: Path, able: Abilities) -> str:
    """Why a test does not apply to this program; empty if it does. The requirements stand in
    comments at its head (documented by `run-regtests.sh --help`)."""
    wants: dict[str, list[str]] = collections.defaultdict(list)
    for line in path.read_text(errors="replace").splitlines():
        if match := re.match(r"#([A-Z_]+)=\s*(.*)", line):
            key, value = match[1], match[2]
            if key in ("REQUIRE_OPTION", "REQUIRE_SERVICE", "EXCLUDE_TARGET"):
                key, value = key + "S", value.split(",")[0]  # a comment follows the comma
            wants[key] += [word.strip() for word in value.split(",") if word.strip()]
    kind = (wants["REGTEST_TYPE"] or ["default"])[0]
    if kind not in _TYPES:
        return f"its type is {kind}"
    if any(_numbers(able.version) < _numbers(v) for v in wants["REQUIRE_VERSION"]):
        return f"needs version {wants['REQUIRE_VERSION'][0]}"
    if any(_numbers(able.version) >= _numbers(v) for v in wants["REQUIRE_VERSION_BELOW"]):
        return f"needs a version below {wants['REQUIRE_VERSION_BELOW'][0]}"
    if able.target in wants["EXCLUDE_TARGETS"]:
        return f"not for {able.target}"
    for option in wants["REQUIRE_OPTIONS"]:
        if "/".join(path.parts[-2:]) in OTHER_MEANS.get(option, ()):
            continue
        if not any(f"+{word}" in able.features for word in option.split("|")):
            return f"needs feature {option}"
    for service in wants["REQUIRE_SERVICES"]:
        if not any(word in able.services for word in service.split("|")):
            return f"needs service {service}"
    return ""


# -- running


class Runner:
    """Runs tests with one program. Methods may be called by several threads."""

    def __init__(self, suite: Path, program: str, arguments: str, keep: bool) -> None:
        self.suite = suite
        self.program = program
        self.arguments = arguments
        self.keep = keep
        # Short: HAProxy refuses UNIX socket paths beyond 97 bytes, and tests put theirs here.
        self.directory = Path(tempfile.mkdtemp(prefix="mtc", dir="/tmp"))
        varnishtest = find_tool("varnishtest")
        if varnishtest is None:
            raise say.Failure("varnishtest is not installed", ".ci/need varnish")
        self.varnishtest = varnishtest
        self._writing = threading.Lock()

    def close(self) -> None:
        """Removes the tests' folder."""
        if self.keep:
            say.note(f"logs are kept in {self.directory}")
        else:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _claiming(self, feature: str) -> str:
        """The program as one that says yes when a test asks it for a feature (`feature cmd`)."""
        path = self.directory / f"with-{feature}"
        question = shlex.quote(f"feature({feature})")
        text = (
            f'#!/bin/sh\nif [ "$1" = -cc ] && [ "$2" = {question} ]; then exit 0; fi\n'
            f'exec {shlex.quote(self.program)} "$@"\n'
        )
        with self._writing:
            if not path.exists():
                path.write_text(text)
                path.chmod(0o700)
        return str(path)

    def run(self, name: str, seconds: float, able: Abilities) -> Result:
        """One test, to its end."""
        path = self.suite / "reg-tests" / name
        if reason := why_not(path, able):
            return Result(name, "skipped", 0.0, reason)
        program = self.program
        for feature, names in OTHER_MEANS.items():
            if name in names:
                program = self._claiming(feature)
        own = Path(tempfile.mkdtemp(prefix="t", dir=self.directory))
        mark = uuid.uuid4().hex
        variables = environment(
            {
                "TMPDIR": str(own),
                "HAPROXY_PROGRAM": program,
                "HAPROXY_ARGS": self.arguments,
                MARK: mark,
            }
        )
        command = [self.varnishtest, "-b", "8388608", "-k", "-t", f"{seconds:g}", "-L", str(path)]
        start = time.monotonic()
        if name in ONE_CPU:
            command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), *command]
        process = subprocess.Popen(
            command,
            cwd=self.suite,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds * 2 + 10)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        finally:
            procfs.kill_marked(f"{MARK}={mark}")
        took = time.monotonic() - start
        logs = "\n".join(p.read_text(errors="replace") for p in own.glob("vtc.*/LOG"))
        if process.returncode == 0:
            result = Result(name, "passed", took)
        elif process.returncode == UNAVAILABLE:
            skipped = re.search(r"^\s*\*+\s+top\s+.*?(?:SKIPPING.*|skipped.*)$", logs, re.MULTILINE)
            result = Result(name, "skipped", took, _short(skipped[0] if skipped else "feature"))
        else:
            text = logs or output.decode(errors="replace")
            result = Result(name, "failed", took, *failure_reason(text, process.returncode))
        if not self.keep:
            shutil.rmtree(own, ignore_errors=True)
        return result


def _short(line: str) -> str:
    line = re.sub(r"^[-*#]+\s+\S+\s+(?:\d+\.\d+\s+)?", "", line.strip())
    return re.sub(r"/tmp/[^\s:\]]*/(\w+/cfg)", r"\1", line)[:220]


def _refused_word(text: str) -> str:
    """The quoted word of a diagnostic; behind a server's or listener's name the next one."""
    quoted = re.findall(r"'([^']+)'", re.sub(r"\[[^\]]*\]", "", text))
    if len(quoted) > 1 and quoted[0].startswith(("server ", "bind ")):
        return f"{quoted[0].split()[0]} {quoted[1]}"
    return quoted[0] if quoted else ""


def failure_reason(log: str, code: int) -> tuple[str, str]:
    """The likeliest reason in a test's log, and the refused word if it was a configuration's."""
    for pattern in (r"^.*\[ALERT\].*(?:parsing|config).*$", r"^.*\[ALERT\].*$", r"^.*Traceback.*$"):
        for match in re.finditer(pattern, log, re.MULTILINE):
            text = match[0].partition("[ALERT]")[2] or match[0]
            text = _short(re.sub(r"^\s*\(\d+\)\s*:\s*", "", text))
            return text, _refused_word(text)
    fatal = re.search(r"^----.*$", log, re.MULTILINE)
    if fatal:
        return _short(fatal[0]), ""
    return f"varnishtest ended with {code}: {log.strip()[-160:]}", ""


@contextlib.contextmanager
def executable(program: str, directory: Path) -> Iterator[str]:
    """One executable path, as the tests demand. mtproxy gets a script that runs this checkout."""
    command = command_of(program)
    if len(command) == 1:
        yield command[0]
        return
    script = directory / "mtproxy"
    python, *words = command
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="{ROOT}"\nexport PYTHONPATH\n'
        f'exec "{python}" -P {" ".join(words)} "$@"\n'
    )
    script.chmod(0o755)
    yield str(script)


# -- reporting


def report(results: Sequence[Result], *, why: bool, program: str) -> None:
    """The table per folder, the refused words and the failures."""
    folders: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for result in results:
        folders[result.name.partition("/")[0]][result.outcome] += 1
    columns = ("passed", "failed", "skipped")
    print(f"\n{'folder':20}" + "".join(f"{column:>9}" for column in columns))
    for folder in sorted(folders):
        print(f"{folder:20}" + "".join(f"{folders[folder][column]:9}" for column in columns))
    total = sum(folders.values(), collections.Counter())
    print(f"{'total':20}" + "".join(f"{total[column]:9}" for column in columns))
    words = collections.Counter(r.word for r in results if r.outcome == "failed" and r.word)
    if words:
        print("\nrefused first, by number of tests:")
        print("  " + ", ".join(f"{word} {count}" for word, count in words.most_common(40)))
    if why:
        print()
        for result in results:
            if result.outcome != "passed":
                print(f"{result.outcome:8} {result.name}: {result.reason}")
    print(
        f"\n{program}: {total['passed']} passed, {total['failed']} failed, "
        f"{total['skipped']} skipped"
    )


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="make conformance", description="HAProxy's regression tests with mtproxy under test"
    )
    parser.add_argument("--program", default="mtproxy", help="mtproxy, haproxy or a path")
    parser.add_argument("--only", action="append", default=[], metavar="FOLDER/NAME",
                        help="a test, a folder or a pattern; may be repeated")  # fmt: skip
    parser.add_argument("--expected", action="store_true", help="only those that have to pass")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--why", action="store_true", help="the reason of every test not passed")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE (- for stdout)")
    parser.add_argument("--keep", action="store_true", help="keep the tests' logs")
    parser.add_argument(
        "--tries", type=int, default=3, help="runs of a test that has to pass and fails (3)"
    )
    parser.add_argument("-j", "--jobs", type=int, default=2, help="tests at once (2)")
    parser.add_argument("--seconds", type=float, default=10.0, help="time for each test (10)")
    return parser.parse_args(arguments)


def selected(names: Sequence[str], options: argparse.Namespace) -> list[str]:
    """The tests that the command line asks for. Raises say.Failure when a word matches none."""
    wanted = expected() if options.expected else list(options.only)
    if not wanted:
        return [] if options.expected else list(names)
    chosen: list[str] = []
    for word in wanted:
        patterns = (word, f"{word}.vtc", f"{word.rstrip('/')}/*")
        found = [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in patterns)]
        # Another version of the suite may lack a test of the list.
        if not found and not options.expected:
            raise say.Failure(f"no test matches {word!r}", "--list shows the names")
        chosen += [name for name in found if name not in chosen]
    return chosen


def run_all(options: argparse.Namespace) -> list[Result]:
    """Runs what the options ask for, showing progress."""
    suite = suite_folder()
    names = selected(all_tests(suite), options)
    # run-regtests.sh's defaults: -dM in 2.6, and since 2.9 also -dI -dW
    arguments = os.environ.get("HAPROXY_ARGS", "-dM")
    runner = Runner(suite, "", arguments, options.keep)
    results: list[Result] = []
    try:
        with executable(options.program, runner.directory) as program:
            runner.program = program
            able = abilities(program, arguments)
            say.step(f"{len(names)} tests of {suite.name} with {described(options.program, able)}")
            ticker = say.Ticker("running")

            must = set(expected() if options.program == "mtproxy" else names)

            def one(name: str) -> Result:
                result = runner.run(name, options.seconds, able)
                for _ in range(options.tries - 1 if name in must else 0):
                    if result.outcome != "failed":
                        break
                    result = runner.run(name, options.seconds, able)
                return result

            with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
                waiting = [pool.submit(one, name) for name in names]
                for done in concurrent.futures.as_completed(waiting):
                    results.append(done.result())
                    ticker.tick(lambda: f"{len(results)} of {len(names)}, {results[-1].name}")
            ticker.close()
    finally:
        runner.close()
    return sorted(results, key=lambda result: result.name)


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module's text."""
    options = parse_arguments(arguments)
    try:
        packages.need(["varnish"])
        if options.list:
            print("\n".join(selected(all_tests(suite_folder()), options)))
            return 0
        suite_folder()
    except say.Failure as failure:
        print(failure.render(), file=sys.stderr)
        return UNAVAILABLE
    try:
        results = run_all(options)
    except (say.Failure, FileNotFoundError) as failure:
        print(failure.render() if isinstance(failure, say.Failure) else failure, file=sys.stderr)
        return 2
    if options.json:
        text = json.dumps([dataclasses.asdict(result) for result in results], indent=1)
        if options.json == "-":
            print(text)
        else:
            Path(options.json).write_text(text + "\n")
    if options.json != "-":
        report(results, why=options.why or len(results) <= 20, program=options.program)
    must = set(expected()) if options.program == "mtproxy" else {r.name for r in results}
    broken = [r for r in results if r.name in must and r.outcome == "failed"]
    if options.program == "mtproxy":
        broken += [r for r in results if r.name in must and r.outcome == "skipped"]
    if options.json != "-" and options.program == "mtproxy":
        print("\n".join(verdict(results, expected(), len(all_tests(suite_folder())))))
    for result in broken:
        print(f"has to pass: {result.name}: {result.outcome}: {result.reason}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
