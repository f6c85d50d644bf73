"""The one place that names all families of fetches, converters and actions.

`FETCHES`, `CONVERTERS` and `ACTIONS` by name. Built once when the module is first used, read-only
afterwards: any thread.
"""

from __future__ import annotations

from typing import Final

from mtproxy.rules.actions import (
    capture as actions_capture,
)
from mtproxy.rules.actions import (
    connection as actions_connection,
)
from mtproxy.rules.actions import (
    flow as actions_flow,
)
from mtproxy.rules.actions import (
    headers as actions_headers,
)
from mtproxy.rules.actions import (
    patterns as actions_patterns,
)
from mtproxy.rules.actions import (
    redirect as actions_redirect,
)
from mtproxy.rules.actions import (
    replies as actions_replies,
)
from mtproxy.rules.actions import (
    service as actions_service,
)
from mtproxy.rules.actions import (
    stick as actions_stick,
)
from mtproxy.rules.actions import (
    stream as actions_stream,
)
from mtproxy.rules.actions import (
    uri as actions_uri,
)
from mtproxy.rules.actions import (
    variables as actions_variables,
)
from mtproxy.rules.actions import (
    waiting as actions_waiting,
)
from mtproxy.rules.converters import (
    addresses as converters_addresses,
)
from mtproxy.rules.converters import (
    captures as converters_captures,
)
from mtproxy.rules.converters import (
    crypto as converters_crypto,
)
from mtproxy.rules.converters import (
    dates as converters_dates,
)
from mtproxy.rules.converters import (
    encodings as converters_encodings,
)
from mtproxy.rules.converters import (
    hashes as converters_hashes,
)
from mtproxy.rules.converters import (
    http as converters_http,
)
from mtproxy.rules.converters import (
    json as converters_json,
)
from mtproxy.rules.converters import (
    jwt as converters_jwt,
)
from mtproxy.rules.converters import (
    maps as converters_maps,
)
from mtproxy.rules.converters import (
    mqtt as converters_mqtt,
)
from mtproxy.rules.converters import (
    numbers as converters_numbers,
)
from mtproxy.rules.converters import (
    protocols as converters_protocols,
)
from mtproxy.rules.converters import (
    stick as converters_stick,
)
from mtproxy.rules.converters import (
    strings as converters_strings,
)
from mtproxy.rules.converters import (
    texts as converters_texts,
)
from mtproxy.rules.converters import (
    variables as converters_variables,
)
from mtproxy.rules.converters import (
    watching as converters_watching,
)
from mtproxy.rules.fetches import (
    captures as fetches_captures,
)
from mtproxy.rules.fetches import (
    clienthello as fetches_clienthello,
)
from mtproxy.rules.fetches import (
    constants as fetches_constants,
)
from mtproxy.rules.fetches import (
    http_auth as fetches_http_auth,
)
from mtproxy.rules.fetches import (
    http_body as fetches_http_body,
)
from mtproxy.rules.fetches import (
    http_cookies as fetches_http_cookies,
)
from mtproxy.rules.fetches import (
    http_headers as fetches_http_headers,
)
from mtproxy.rules.fetches import (
    http_request as fetches_http_request,
)
from mtproxy.rules.fetches import (
    http_response as fetches_http_response,
)
from mtproxy.rules.fetches import (
    layer4 as fetches_layer4,
)
from mtproxy.rules.fetches import (
    layer5 as fetches_layer5,
)
from mtproxy.rules.fetches import (
    layer6 as fetches_layer6,
)
from mtproxy.rules.fetches import (
    process as fetches_process,
)
from mtproxy.rules.fetches import (
    proxies as fetches_proxies,
)
from mtproxy.rules.fetches import (
    stick as fetches_stick,
)
from mtproxy.rules.fetches import (
    timers as fetches_timers,
)
from mtproxy.rules.fetches import (
    variables as fetches_variables,
)
from mtproxy.rules.tables import Action, Converter, Fetch

_ACTIONS_BY_FAMILY: Final[tuple[tuple[Action, ...], ...]] = (
    actions_capture.ACTIONS,
    actions_connection.ACTIONS,
    actions_flow.ACTIONS,
    actions_headers.ACTIONS,
    actions_patterns.ACTIONS,
    actions_redirect.ACTIONS,
    actions_replies.ACTIONS,
    actions_service.ACTIONS,
    actions_stick.ACTIONS,
    actions_stream.ACTIONS,
    actions_uri.ACTIONS,
    actions_variables.ACTIONS,
    actions_waiting.ACTIONS,
)
_CONVERTERS_BY_FAMILY: Final[tuple[tuple[Converter, ...], ...]] = (
    converters_addresses.CONVERTERS,
    converters_captures.CONVERTERS,
    converters_crypto.CONVERTERS,
    converters_dates.CONVERTERS,
    converters_encodings.CONVERTERS,
    converters_hashes.CONVERTERS,
    converters_http.CONVERTERS,
    converters_json.CONVERTERS,
    converters_jwt.CONVERTERS,
    converters_maps.CONVERTERS,
    converters_mqtt.CONVERTERS,
    converters_numbers.CONVERTERS,
    converters_protocols.CONVERTERS,
    converters_stick.CONVERTERS,
    converters_strings.CONVERTERS,
    converters_texts.CONVERTERS,
    converters_variables.CONVERTERS,
    converters_watching.CONVERTERS,
)
_FETCHES_BY_FAMILY: Final[tuple[tuple[Fetch, ...], ...]] = (
    fetches_captures.FETCHES,
    fetches_clienthello.FETCHES,
    fetches_constants.FETCHES,
    fetches_http_auth.FETCHES,
    fetches_http_body.FETCHES,
    fetches_http_cookies.FETCHES,
    fetches_http_headers.FETCHES,
    fetches_http_request.FETCHES,
    fetches_http_response.FETCHES,
    fetches_layer4.FETCHES,
    fetches_layer5.FETCHES,
    fetches_layer6.FETCHES,
    fetches_process.FETCHES,
    fetches_proxies.FETCHES,
    fetches_stick.FETCHES,
    fetches_timers.FETCHES,
    fetches_variables.FETCHES,
)


def _by_name[Entry: (Action, Converter, Fetch)](
    families: tuple[tuple[Entry, ...], ...],
) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for family in families:
        for entry in family:
            assert entry.name not in found, f"{entry.name} is in two tables"
            found[entry.name] = entry
    return found


FETCHES: Final = _by_name(_FETCHES_BY_FAMILY)
CONVERTERS: Final = _by_name(_CONVERTERS_BY_FAMILY)
#: by name; a name that ends with "(" takes an argument in its word
ACTIONS: Final = _by_name(_ACTIONS_BY_FAMILY)
