"""A name server of a few names on 127.0.0.1, over UDP and TCP, that does what it is told.

`answers` maps (name, "A", "AAAA" or "SRV") to texts as in a zone file; a name that is in no entry
does not exist. `additional` maps a SRV name to records that its answers bring along, (name, type,
text). What is asked for that is in `silent` gets no answer, in `failing` SERVFAIL, in `refused`
REFUSED, in `cut` a truncated one over UDP. `mangle(reply)` returns what is sent in its place. All
of these may be replaced while it runs. A context manager; one thread of its own.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset

#: name and type
type Asked = tuple[str, str]


class NameServer:
    """See the module. `questions` are (name, type) in the order in which they came."""

    def __init__(
        self,
        answers: dict[Asked, list[str]],
        silent: Iterable[Asked] = frozenset(),
        failing: Iterable[Asked] = frozenset(),
        *,
        port: int = 0,
        ttl: int = 60,
    ) -> None:
        self.answers = answers
        self.additional: dict[str, list[tuple[str, str, str]]] = {}
        self.silent = frozenset(silent)
        self.failing = frozenset(failing)
        self.refused: frozenset[Asked] = frozenset()
        self.cut: frozenset[Asked] = frozenset()
        self.mangle: Callable[[bytes], list[bytes]] | None = None
        self.ttl = ttl
        self.questions: list[Asked] = []
        #: how many of them came over TCP
        self.over_tcp = 0
        self._socket, self._listener = _pair(port)
        self.port: int = self._socket.getsockname()[1]
        self._streams: dict[socket.socket, bytearray] = {}
        self._stopping, self._stop = socket.socketpair()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.close()
        self._thread.join()
        for sock in (self._socket, self._listener, self._stopping, *self._streams):
            sock.close()

    def _serve(self) -> None:
        with selectors.DefaultSelector() as selector:
            for own in (self._socket, self._listener, self._stopping):
                selector.register(own, selectors.EVENT_READ)
            while True:
                for ready, _ in selector.select():
                    sock = ready.fileobj
                    assert isinstance(sock, socket.socket)  # nothing else is registered
                    if sock is self._stopping:
                        return
                    if sock is self._socket:
                        self._datagram()
                    elif sock is self._listener:
                        stream, _ = sock.accept()
                        self._streams[stream] = bytearray()
                        selector.register(stream, selectors.EVENT_READ)
                    elif not self._read(sock):
                        selector.unregister(sock)
                        del self._streams[sock]
                        sock.close()

    def _datagram(self) -> None:
        try:
            data, peer = self._socket.recvfrom(65535)
        except ConnectionError:
            return  # an earlier reply found nobody
        for reply in self._replies(data, stream=False):
            self._socket.sendto(reply, peer)

    def _read(self, stream: socket.socket) -> bool:
        waiting = self._streams[stream]
        try:
            data = stream.recv(65535)
        except ConnectionError:
            data = b""
        if not data:
            return False
        waiting += data
        while len(waiting) >= 2 and len(waiting) >= (end := 2 + int.from_bytes(waiting[:2])):
            question = bytes(waiting[2:end])
            del waiting[:end]
            self.over_tcp += 1
            for reply in self._replies(question, stream=True):
                with contextlib.suppress(ConnectionError):
                    stream.sendall(len(reply).to_bytes(2) + reply)
        return True

    def _replies(self, data: bytes, *, stream: bool) -> list[bytes]:
        query = dns.message.from_wire(data)
        asked = query.question[0]
        name = asked.name.to_text(omit_final_dot=True).lower()
        kind = dns.rdatatype.to_text(asked.rdtype)
        key = name, kind
        self.questions.append(key)
        if key in self.silent:
            return []
        reply = dns.message.make_response(query)
        found = self.answers.get(key)
        if key in self.failing:
            reply.set_rcode(dns.rcode.SERVFAIL)
        elif key in self.refused:
            reply.set_rcode(dns.rcode.REFUSED)
        elif found:
            reply.answer.append(dns.rrset.from_text_list(asked.name, self.ttl, "IN", kind, found))
            if key in self.cut and not stream:
                reply.flags |= dns.flags.TC
            for target, extra, text in self.additional.get(name, ()):
                reply.additional.append(
                    dns.rrset.from_text(f"{target}.", self.ttl, "IN", extra, text)
                )
        elif not any(known == name for known, _ in self.answers):
            reply.set_rcode(dns.rcode.NXDOMAIN)
        wire = reply.to_wire()
        return [wire] if self.mangle is None else self.mangle(wire)


def _pair(port: int) -> tuple[socket.socket, socket.socket]:
    """A UDP socket and a listening TCP socket with the same port."""
    while True:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.bind(("127.0.0.1", port))
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(datagrams.getsockname())
        except OSError:
            datagrams.close()
            listener.close()
            if port:
                raise
            continue
        listener.listen(16)
        return datagrams, listener
