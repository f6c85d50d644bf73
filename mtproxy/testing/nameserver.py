"""A name server of a few names, over UDP on 127.0.0.1, that counts what it is asked.

`answers` maps (name, "A" or "AAAA") to addresses; a name that is in no entry does not exist.
Questions in `silent` get no answer, for those in `failing` it is SERVFAIL. A context manager; one
thread of its own.
"""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset


class NameServer:
    """See the module. `questions` are (name, type) in the order in which they came."""

    def __init__(
        self,
        answers: dict[tuple[str, str], list[str]],
        silent: frozenset[tuple[str, str]] = frozenset(),
        failing: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self.answers = answers
        self.silent = silent
        self.failing = failing
        self.questions: list[tuple[str, str]] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
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
        # an empty datagram ends the thread
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        while True:
            data, peer = self._socket.recvfrom(65535)
            if not data:
                return
            query = dns.message.from_wire(data)
            asked = query.question[0]
            name = asked.name.to_text(omit_final_dot=True).lower()
            kind = dns.rdatatype.to_text(asked.rdtype)
            self.questions.append((name, kind))
            if (name, kind) in self.silent:
                continue
            reply = dns.message.make_response(query)
            found = self.answers.get((name, kind))
            if (name, kind) in self.failing:
                reply.set_rcode(dns.rcode.SERVFAIL)
            elif found:
                reply.answer.append(dns.rrset.from_text_list(asked.name, 60, "IN", kind, found))
            elif not any(known == name for known, _ in self.answers):
                reply.set_rcode(dns.rcode.NXDOMAIN)
            self._socket.sendto(reply.to_wire(), peer)
