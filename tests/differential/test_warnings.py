"""mtproxy warns of the configurations that HAProxy warns of, and of the same sections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.differential import bed

# fmt: off
_TIMEOUTS = "    timeout client 1s\n    timeout connect 1s\n    timeout server 1s\n"
_STICK = "backend st\n    stick-table type ip size 100 store gpc0\n"
_SECTIONS = ("global", "defaults", "frontend", "backend", "listen", "resolvers", "log-forward", "userlist", "ring")


def config(front: str = "", back: str = "", *, defaults: str = "", name: str = "", mode: str = "http", before: str = "", behind: str = "") -> str:
    """A small proxy; the arguments are lines of its sections."""
    def lines(text: str) -> str:
        return "".join(f"    {line}\n" for line in text.split("\n") if line)
    return (
        f"{before}defaults {name}\n    mode {mode}\n{_TIMEOUTS}{lines(defaults)}"
        f"frontend f\n    bind 127.0.0.1:18080\n    default_backend b\n{lines(front)}"
        f"backend b\n    server s 127.0.0.1:1\n{lines(back)}{_STICK}{behind}"
    )


_LISTEN = "listen l\n    bind 127.0.0.1:18081\n    server a 127.0.0.1:1\n"
_FINAL = ("http-request deny", "http-request allow", "http-request redirect location /", "http-request auth", "http-request tarpit", "http-request return status 200", "http-request reject",
          "http-request silent-drop", "http-response deny", "http-response redirect location /", "http-after-response allow", "tcp-request content accept", "tcp-request connection reject")
_RULES = ("tcp-request connection accept if TRUE", "tcp-request session accept if TRUE", "tcp-request content accept if TRUE", "monitor fail if FALSE", "http-request deny if FALSE", "redirect location / if FALSE",
          "use_backend b if FALSE", "http-response deny if FALSE")
_FRONT_OPTIONS = ("accept-invalid-http-request", "disable-h2-upgrade", "http-ignore-probes", "http-use-proxy-header", "idle-close-on-response", "http-buffer-request", "http-no-delay", "forwardfor", "originalto",
                  "contstats", "httpclose", "httplog", "splice-auto", "h1-case-adjust-bogus-client")
_BACK_OPTIONS = ("accept-invalid-http-response", "checkcache", "http-pretend-keepalive", "prefer-last-server", "http-buffer-request", "http-no-delay", "allbackups", "abortonclose", "forwardfor")
CONFIGS = {
    "nothing": config(),
    # -- what does nothing
    **{f"backend: {line}": config(back=line) for line in (
        "http-check expect status 200", "http-check send meth GET", "http-check disable-on-404", "http-check expect status 200\noption httpchk", "option httpchk\nhttp-check expect status 200", "option tcp-check\nhttp-check expect status 200",
        "tcp-check connect", "tcp-check expect string x", "option tcp-check\ntcp-check connect", "option httpchk\ntcp-check connect", "external-check command /bin/true", "external-check path /bin", "load-server-state-from-file global",
        "load-server-state-from-file local", "server t 127.0.0.1:2 tfo", "server t 127.0.0.1:2 tfo\nretry-on conn-failure empty-response response-timeout", "server t 127.0.0.1:2 cookie c", "cookie S insert domain .x", "cookie S insert domain x",
        "unique-id-format %ci", "default_backend b2\n", "maxconn 5", "option httplog", "timeout client 1s", "timeout server 2s", "timeout server 1s\ntimeout server 2s", "timeout server 2s\ntimeout server 3s", "bind-process 1",
        "tcp-request inspect-delay 1s\ntcp-request inspect-delay 1s", "tcp-response inspect-delay 1s\ntcp-response inspect-delay 2s")if "b2" not in line},
    **{f"frontend: {line}": config(line) for line in (
        "balance first", "hash-balance-factor 150", "persist rdp-cookie", "transparent", "fullconn 5", "timeout server 1s", "timeout client 2s", "timeout client 2s\ntimeout client 3s", "rate-limit sessions 5\nrate-limit sessions 5",
        "log-format-sd %ci", "log-format %ci", "option tcplog", "log-format %ci\nlog 127.0.0.1 local0", "tcp-request content capture req.len len 5", "tcp-request content capture src len 5", "tcp-request inspect-delay 1s\ntcp-request content capture req.len len 5",
        "tcp-request content track-sc0 src table st", "tcp-request content track-sc0 src table st if { path / }", "tcp-request content track-sc0 path table st", "tcp-request session track-sc0 src table st", "http-request track-sc0 src table st")},
    **{f"twice: {line}": config(f"{line}\n{line}") for line in _FINAL},
    **{f"behind defaults: {line}": config(line, defaults=line, name="d", behind="backend x from e\n") .replace("backend b\n", "defaults e\n    timeout connect 1s\n    timeout server 1s\nbackend b\n") for line in _FINAL},
    **{f"order: {first}, {second}": config(f"{first}\n{second}") for first in _RULES for second in _RULES if first != second},
    "rules of defaults stand before": config(_RULES[0], defaults=_RULES[4], name="d").replace("backend b\n", "defaults e\n    timeout connect 1s\n    timeout server 1s\nbackend b\n"),
    # -- other modes
    **{f"tcp frontend: {one}": config(f"option {one}", mode="tcp") for one in _FRONT_OPTIONS if not one.startswith("accept-")},
    **{f"tcp backend: {one}": config(back=f"option {one}", mode="tcp") for one in _BACK_OPTIONS if not one.startswith("accept-")},
    **{f"tcp frontend: {line}": config(line, mode="tcp") for line in ("capture cookie a len 5", "capture request header a len 5", "http-request deny", "monitor-uri /x", "stats enable", "redirect location /", "tcp-request content track-sc0 src table st")},
    **{f"tcp backend: {line}": config(back=line, mode="tcp") for line in ("cookie S insert", "retry-on 503", "retry-on conn-failure", "server t 127.0.0.1:2 cookie c", "server t 127.0.0.1:2 redir http://x", "http-response deny", "stats enable")},
    # -- whole sections
    "listen and default_backend": config(behind=_LISTEN + "    default_backend b\n"),
    "switch-mode without a backend": config(behind=_LISTEN + "    mode tcp\n    tcp-request content switch-mode http if HTTP\n"),
    "listen": config(behind=_LISTEN),
    "listen without bind": config(behind="listen m\n    server a 127.0.0.1:1\n"),
    "no name servers": config(behind="resolvers r\n    hold valid 1s\n"),
    "name servers twice": config(behind="resolvers r\n    parse-resolv-conf\n    parse-resolv-conf\n"),
    "a log-forward that listens nowhere": config(behind="log-forward w\n    log 127.0.0.1 local0\n"),
    "a userlist nobody uses": config(behind="userlist u\n"),
    "no timeouts": config(behind="defaults\nlisten n\n    bind 127.0.0.1:18082\n    server a 127.0.0.1:1\n"),
    "a backend nobody uses": config(behind="backend unused\n    server a 127.0.0.1:1\n"),
    "no defaults": f"frontend f\n    bind 127.0.0.1:18080\n    mode http\n{_TIMEOUTS.splitlines(keepends=True)[0] * 2}",
    # -- refused where nothing uses it
    **{f"refused in an anonymous defaults: {line}": config(defaults=line) for line in ("tcp-request inspect-delay 1s", "tcp-response inspect-delay 1s", "http-request deny")},
    **{f"refused in a frontend: {line}": config(line) for line in ("default-server weight 5", "retry-on 503", "timeout server x", "timeout server", "timeout server 1s 2s", "timeout server 25d", "balance nothing", "id 2147483648")},
    **{f"refused in a backend: {line}": config(back=line) for line in ("timeout client x", "default_backend", "option httplog nothing", "server t 127.0.0.1:2 id 4294967296", "hash-balance-factor 2147483648", "balance uri depth 2147483648",
        "server t 127.0.0.1:2 check rise 2147483648", "external-check command nowhere", "capture cookie a")},
    **{f"refused in resolvers: {line}": config(behind=f"resolvers r\n    {line}\n") for line in ("nameserver a 127.0.0.1", "nameserver a 127.0.0.1:0", "nameserver a 127.0.0.1:53")},
}
# fmt: on


def blamed(text: str, output: str) -> set[str]:
    """The first words of the sections that the warnings are about."""
    at: list[str] = []
    for line in text.split("\n"):
        words = line.split()
        begins = bool(words) and words[0] in _SECTIONS
        at.append(" ".join(words[:2]) if begins or not at else at[-1])
    names = {one.split()[-1]: one for one in at if one}
    found = set()
    for line in output.splitlines():
        if "[WARNING]" not in line:
            continue
        place = re.search(r"\.cfg:(\d+)\]", line)
        if place is not None:
            found.add(at[int(place[1]) - 1])
        else:
            named = re.search(r"(?:frontend|backend|listen|[Pp]roxy) '(\w+)'", line)
            found.add(names.get(named[1], "") if named else "")
    return found


def _ask(program: str, path: Path) -> tuple[int, set[str]]:
    """Exit code, and what is blamed; of what is refused only the code counts."""
    text = path.read_text()
    code, output = bed.load_verdict(program, text)
    assert code in (0, 1, 2), output
    return code, set() if code == 1 else blamed(text, output)


@pytest.mark.usefixtures("haproxy")
@pytest.mark.parametrize("name", CONFIGS)
def test_the_same_is_warned_of(name: str, tmp_path: Path) -> None:
    path = tmp_path / "case.cfg"
    path.write_text(CONFIGS[name])
    assert _ask("mtproxy", path) == _ask("haproxy", path)
