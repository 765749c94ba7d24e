"""How the broker is shown who asks, read from the files as they are now."""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path
from typing import Any, NamedTuple

import pulsar

from pulsar_consumer.oauth2 import Tokens, trusting
from pulsar_consumer.settings import Broker

log = logging.getLogger("pulsar_consumer")


class Shown(NamedTuple):
    """A method of authentication by the name that the protocol has for it, and its data."""

    method: str
    data: str


_tokens: dict[Broker, Tokens] = {}
_lock = threading.Lock()


def tokens_of(broker: Broker) -> Tokens | None:
    """Those of the broker's issuer, the same for each client; None where it has none."""
    if broker.oauth2 is None:
        return None
    with _lock:
        if broker not in _tokens:
            _tokens[broker] = Tokens(broker.oauth2, broker.ca_file)
        return _tokens[broker]


def shown(broker: Broker) -> Shown | None:
    """None where nothing is shown; a client certificate alone is shown by TLS itself.

    Never an exception: what cannot be read is empty, and refused.
    """
    if (tokens := tokens_of(broker)) is not None:
        return Shown("token", tokens.current())
    if broker.token_file is not None:
        return Shown("token", _text(broker.token_file, "the token"))
    if broker.basic_files is not None:
        names = (_text(broker.basic_files / name, f"the {name}") for name in ("username", "password"))
        return Shown("basic", ":".join(names))
    return Shown("tls", "") if broker.certificate_file is not None else None


def authentication(broker: Broker) -> pulsar.Authentication | None:
    """The same for the client. It asks for a token at each authentication; a password stays until there is
    another client.
    """
    if broker.oauth2 is not None or broker.token_file is not None:
        return pulsar.AuthenticationToken(lambda: _data(broker))
    if broker.basic_files is not None:
        user, _, password = _data(broker).partition(":")
        return pulsar.AuthenticationBasic(user, password)
    if broker.certificate_file is not None:
        return pulsar.AuthenticationTLS(str(broker.certificate_file), str(broker.key_file))
    return None


def is_outdated(broker: Broker, used: Shown | None) -> bool:
    """Whether a client that was made with `used` would show what is no longer in the files.

    So it is with a password alone, whose new value must be there as a whole.
    """
    if broker.basic_files is None or (found := shown(broker)) is None or found == used:
        return False
    return all(found.data.partition(":")[::2])


def tls_arguments(broker: Broker) -> dict[str, Any]:
    """What a client is made with; without a file of authorities, the system's are trusted."""
    files = {
        # The client's own OpenSSL looks for the system's where its builders had them.
        "tls_trust_certs_file_path": broker.ca_file or ssl.get_default_verify_paths().cafile,
        "tls_certificate_file_path": broker.certificate_file,
        "tls_private_key_file_path": broker.key_file,
    }
    return {"tls_validate_hostname": True} | {name: str(file) for name, file in files.items() if file}


def tls_context(broker: Broker) -> ssl.SSLContext:
    """The same for a connection of our own.

    :raises OSError: when a file cannot be read, or is none of its kind.
    """
    context = trusting(broker.ca_file)
    if broker.certificate_file is not None:
        context.load_cert_chain(broker.certificate_file, broker.key_file)
    return context


def _data(broker: Broker) -> str:
    """Asked in a thread of the client's own, where an exception would end the process."""
    found = shown(broker)
    return found.data if found is not None else ""


def _text(file: Path, what: str) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        log.error("%s cannot be read: %s", what, type(error).__name__)
        return ""
