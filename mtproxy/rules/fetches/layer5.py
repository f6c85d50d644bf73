"""The session: TLS, which there is none of yet (manual 7.3.4).

`ssl_fc` and `ssl_bc` say so; what would describe a TLS connection is refused when it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mtproxy.rules.points import Need
from mtproxy.rules.tables import Fetch
from mtproxy.rules.types import Type

if TYPE_CHECKING:
    from mtproxy.rules.view import View

#: what HAProxy tells of the client's TLS connection
_CLIENT = """
    ssl_c_ca_err ssl_c_ca_err_depth ssl_c_chain_der ssl_c_der ssl_c_err ssl_c_i_dn
    ssl_c_key_alg ssl_c_notafter ssl_c_notbefore ssl_c_s_dn ssl_c_serial ssl_c_sha1
    ssl_c_sig_alg ssl_c_used ssl_c_verify ssl_c_version ssl_f_der ssl_f_i_dn ssl_f_key_alg
    ssl_f_notafter ssl_f_notbefore ssl_f_s_dn ssl_f_serial ssl_f_sha1 ssl_f_sig_alg
    ssl_f_version ssl_fc_alg_keysize ssl_fc_alpn ssl_fc_cipher ssl_fc_cipherlist_bin
    ssl_fc_cipherlist_hex ssl_fc_cipherlist_str ssl_fc_cipherlist_xxh
    ssl_fc_client_early_traffic_secret ssl_fc_client_handshake_traffic_secret
    ssl_fc_client_random ssl_fc_client_traffic_secret_0 ssl_fc_early_exporter_secret
    ssl_fc_ecformats_bin ssl_fc_eclist_bin ssl_fc_err ssl_fc_err_str ssl_fc_exporter_secret
    ssl_fc_extlist_bin ssl_fc_has_crt ssl_fc_has_early ssl_fc_has_sni ssl_fc_is_resumed
    ssl_fc_npn ssl_fc_protocol ssl_fc_protocol_hello_id ssl_fc_server_handshake_traffic_secret
    ssl_fc_server_random ssl_fc_server_traffic_secret_0 ssl_fc_session_id ssl_fc_session_key
    ssl_fc_sni ssl_fc_sni_end ssl_fc_sni_reg ssl_fc_unique_id ssl_fc_use_keysize
"""
#: and of the one to the server
_SERVER = """
    ssl_bc_alg_keysize ssl_bc_alpn ssl_bc_cipher ssl_bc_client_random ssl_bc_err
    ssl_bc_err_str ssl_bc_is_resumed ssl_bc_npn ssl_bc_protocol ssl_bc_server_random
    ssl_bc_session_id ssl_bc_session_key ssl_bc_unique_id ssl_bc_use_keysize ssl_s_chain_der
    ssl_s_der ssl_s_i_dn ssl_s_key_alg ssl_s_notafter ssl_s_notbefore ssl_s_s_dn ssl_s_serial
    ssl_s_sha1 ssl_s_sig_alg ssl_s_version
"""


def _clear(_view: View) -> bool:
    return False


FETCHES: tuple[Fetch, ...] = (
    Fetch("ssl_fc", Type.BOOL, Need.SESSION, call=_clear),
    Fetch("ssl_bc", Type.BOOL, Need.SERVER, call=_clear),
    *(Fetch(name, Type.ANY, Need.SESSION, later="TLS") for name in _CLIENT.split()),
    *(Fetch(name, Type.ANY, Need.SERVER, later="TLS") for name in _SERVER.split()),
)
