#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""A small HTTP server, with TLS if it is given a certificate.

The handshake of TLS takes place in the thread of its client and ends with a
timeout. prometheus_client's own server does it in the thread that accepts
connections: there a client that sends nothing would keep all others out, and
keep the agent from ending.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import socket
import socketserver
import ssl
import sys
import threading
import typing
from wsgiref import simple_server

from nova_vgpu import exception

_CLIENT_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class TLS:
    """Files in PEM format; with a CA, clients need a certificate of it."""

    certificate: str
    key: str
    client_ca: str | None = None


class _Handler(simple_server.WSGIRequestHandler):
    timeout = _CLIENT_SECONDS

    def log_message(self, format: str, *args: typing.Any) -> None:
        """Requests are not logged."""


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    # Clients that are slow do not delay the end of the process.
    daemon_threads = True

    def handle_error(
        self, request: typing.Any, client_address: object
    ) -> None:
        """Clients that are refused, or that go away, are not our errors."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _ServerIPv6(_Server):
    address_family = socket.AF_INET6


@contextlib.contextmanager
def serve(
    application: typing.Any, host: str, port: int, tls: TLS | None
) -> Iterator[int]:
    """Answer requests until the context ends.

    :param port: 0 for any free port.
    :returns: the port in use.
    :raises UsageError: if a file of TLS cannot be used.
    :raises OSError: if the address cannot be used.
    """
    context = make_context(tls) if tls else None
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    is_ipv6 = found[0][0] == socket.AF_INET6
    server = simple_server.make_server(
        str(found[0][4][0]),
        port,
        application,
        _ServerIPv6 if is_ipv6 else _Server,
        _Handler,
    )
    if context is not None:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def make_context(tls: TLS) -> ssl.SSLContext:
    """What a server needs to be sure of its clients, and they of it.

    :raises UsageError: if a file cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with _explain(
        '--metrics-cert and --metrics-key', tls.certificate, tls.key
    ):
        # A password would be asked for on the terminal.
        context.load_cert_chain(tls.certificate, tls.key, lambda: '')
    if tls.client_ca is not None:
        with _explain('--metrics-client-ca', tls.client_ca):
            context.load_verify_locations(tls.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


@contextlib.contextmanager
def _explain(options: str, *paths: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        # Of an SSLError as well; it does not say which file is wrong.
        reason = getattr(error, 'reason', None) or error.strerror or str(error)
        raise exception.UsageError(
            f'{options}: {" and ".join(paths)} cannot be used: {reason}. They '
            'must be readable for the agent, in PEM format, the key without a '
            'password and of this certificate.'
        ) from error
