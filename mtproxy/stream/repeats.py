"""What the first rules of a set made of a request head, remembered for the next request with it.

Clients repeat themselves: a head that a thread has seen before is one object (`http.cache`), and
what rules make of it is the same again as long as they read nothing else (`rules.repeating`) and no
list of patterns has changed meanwhile. The outcome is kept with the head, from its second pass on;
rules that refuse or answer run each time. Owner thread only, like the heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.rules.repeating import changes_patterns, leading
from mtproxy.rules.variables import limited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtproxy.http.h1_request import RequestHead
    from mtproxy.rules.build import Build, BuiltRule
    from mtproxy.rules.patterns.reference import Changes
    from mtproxy.rules.transaction import Transaction
    from mtproxy.rules.view import View


class Outcome:
    """What became of a head: the head that goes on, variables, bytes added by rewriting, and the
    rule that let the request pass, if one did.
    """

    __slots__ = ("added", "head", "memory", "req_vars", "rule", "token", "txn_vars")

    def __init__(self, memory: Memory, token: object, head: RequestHead, txn: Transaction) -> None:
        self.memory = memory
        #: what the lists of patterns were before the rules ran
        self.token = token
        self.head = head
        self.txn_vars = None if txn.txn_vars is None else txn.txn_vars.copy()
        self.req_vars = None if txn.req_vars is None else txn.req_vars.copy()
        self.added = txn.req_added
        self.rule = txn.rule


class Memory:
    """The memory of one rule set on one thread: of `rules`, behind which `rest` runs each time."""

    __slots__ = ("changes", "rest", "rules")

    def __init__(
        self, rules: Sequence[BuiltRule], rest: Sequence[BuiltRule], changes: Changes
    ) -> None:
        self.rules = rules
        self.rest = rest
        self.changes = changes

    def recall(self, view: View) -> bool:
        """Do to the request what the rules would do; whether that is known."""
        head = view.request
        assert head is not None
        outcome = head.outcome
        if (
            type(outcome) is not Outcome
            or outcome.memory is not self
            or outcome.token is not self.changes.token
        ):
            return False
        txn = view.txn
        view.request = outcome.head
        if outcome.txn_vars is not None:
            txn.txn_vars = outcome.txn_vars.copy()
        if outcome.req_vars is not None:
            txn.req_vars = outcome.req_vars.copy()
        if outcome.rule is not None:
            txn.rule = outcome.rule
        txn.req_added = outcome.added
        return True

    def begin(self, view: View) -> tuple[RequestHead, object] | None:
        """The rules are about to run. What `keep` is to be given; None: they find more than a head
        that came before.
        """
        head, txn = view.request, view.txn
        assert head is not None
        if head.outcome is None:
            head.outcome = self  # most heads never come again
            return None
        if txn.own_req or txn.txn_vars is not None or txn.req_vars is not None:
            return None
        return head, self.changes.token

    def keep(self, view: View, begun: tuple[RequestHead, object]) -> None:
        """The rules have let the request pass."""
        original, token = begun
        txn, head = view.txn, view.request
        assert head is not None
        if txn.own_req:
            head.seal()
            txn.own_req = False  # it serves others, too
        original.outcome = Outcome(self, token, head, txn)


def build_memory(built: Sequence[BuiltRule], build: Build, content: bool) -> Memory | None:
    """The memory of a frontend's http-request rules; None where the first of them may make
    something else of the same head. `content`: rules about content run before them.
    """
    settings = build.shared.settings
    if (
        not built
        or content
        or limited(settings.global_.tune)
        or any(changes_patterns(proxy.rules) for proxy in settings.proxies)
    ):
        return None
    count = leading([rule.rule for rule in built], build.acls)
    if not count:
        return None
    return Memory(built[:count], built[count:], build.shared.patterns.changes)
