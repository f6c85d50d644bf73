"""What public configurations are made of, and the tests that show what each construct does.

An index: kind of construct -> construct -> ids of tests that show its behaviour beside HAProxy.
An id is one of

    cases/FAMILY/NAME         a case of tests/differential/cases
    endings/http/NAME         an ending of tests/differential/endings_table.py (or endings/tcp/NAME)
    whole/NAME                a whole configuration of tests/differential/whole
    refused/NAME              an entry of `refused.REFUSED`: this program refuses it, with words
    e2e/test_x.py::test_y     a test function below tests/, without its parameters

`test_realworld_index` holds the index to the truth: every id exists, runs on both programs, and its
text has the construct's word (`WRITTEN` where a test writes it otherwise).
"""

from __future__ import annotations

from typing import Final

from tests.differential.realworld import pages, process, proxies, rules, servers

type Index = dict[str, dict[str, tuple[str, ...]]]

INDEX: Final[Index] = {
    **process.INDEX,
    **proxies.INDEX,
    **servers.INDEX,
    **rules.INDEX,
    **pages.INDEX,
}
#: how a test's text writes a construct, where that is not the construct's own words
WRITTEN: Final[dict[tuple[str, str], str]] = {
    **process.WRITTEN,
    **proxies.WRITTEN,
    **servers.WRITTEN,
    **rules.WRITTEN,
    **pages.WRITTEN,
}
