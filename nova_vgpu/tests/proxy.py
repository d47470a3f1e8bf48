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

"""An HTTP proxy on loopback that does to requests what networks do.

It stands between the client and a real Placement, counts the requests and
spoils the one that it is told to. It ends with the context.
"""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
import dataclasses
import enum
import http.client
import http.server
import json
import threading
import typing
import urllib.parse

LOOPBACK = '127.0.0.1'


class Fault(enum.Enum):
    """What befalls a request."""

    CONFLICT = '409 instead of the request'
    UNAVAILABLE = '503 instead of the request'
    CUT_BEFORE = 'cut before the request reached Placement'
    CUT_AFTER = 'cut after the request reached Placement'
    CUT_WITHIN = 'cut in the middle of the answer'
    UNAVAILABLE_AFTER = '503 after the request reached Placement'
    SLOW = 'no answer in time, and nothing reached Placement'
    SLOW_AFTER = 'no answer in time, though it reached Placement'


#: What of these befalls a read is the same as without the ``AFTER``.
OF_WRITES = (Fault.CUT_AFTER, Fault.UNAVAILABLE_AFTER, Fault.SLOW_AFTER)
_BEFORE = (Fault.CONFLICT, Fault.UNAVAILABLE, Fault.CUT_BEFORE, Fault.SLOW)


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request that came by."""

    method: str
    path: str

    @property
    def writes(self) -> bool:
        return self.method != 'GET'


class Proxy:
    """What the proxy saw, and what it is to do.

    ``faults`` tells for the number of a request, from 0, what befalls it.
    ``before`` is called before each request that writes is passed on: a place
    for somebody else to be faster.
    """

    def __init__(self, target: str) -> None:
        self.target = urllib.parse.urlsplit(target).netloc
        self.url = ''
        self.released = threading.Event()
        self.reset()

    def reset(
        self,
        faults: Callable[[int], Fault | None] = lambda _number: None,
        before: Callable[[Seen], None] = lambda _seen: None,
    ) -> None:
        self.seen: list[Seen] = []
        self.faults = faults
        self.before = before

    @property
    def writes(self) -> list[Seen]:
        return [seen for seen in self.seen if seen.writes]


@contextlib.contextmanager
def run_proxy(target: str) -> Iterator[Proxy]:
    """A proxy in front of a URL for as long as the context lasts."""
    proxy = Proxy(target)

    class Handler(_Handler):
        the_proxy = proxy

    with http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler) as server:
        server.daemon_threads = True
        proxy.url = f'http://{LOOPBACK}:{server.server_address[1]}'
        # A run that is broken off does not clean up after a class.
        thread = threading.Thread(
            target=server.serve_forever, args=(0.01,), daemon=True
        )
        thread.start()
        try:
            yield proxy
        finally:
            proxy.released.set()  # whoever waits for a slow answer
            server.shutdown()
            thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    # Answers go out at once, and in one piece.
    disable_nagle_algorithm = True
    wbufsize = -1
    the_proxy: Proxy

    def log_message(self, format: str, *_args: typing.Any) -> None:
        """Not on the terminal."""

    def _handle(self) -> None:
        proxy = self.the_proxy
        body = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        seen = Seen(self.command, self.path)
        fault = proxy.faults(len(proxy.seen))
        proxy.seen.append(seen)
        if seen.writes:
            proxy.before(seen)
        if fault in _BEFORE:
            self._spoil(fault)
            return
        status, headers, answer = self._forward(body)
        if fault is not None:
            self._spoil(fault, answer)
            return
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ('connection', 'transfer-encoding'):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _handle

    def _forward(
        self, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        with contextlib.closing(
            http.client.HTTPConnection(self.the_proxy.target)
        ) as connection:
            headers = dict(self.headers.items())
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            return response.status, response.getheaders(), response.read()

    def _spoil(self, fault: Fault, answer: bytes = b'') -> None:
        self.close_connection = True
        if fault is Fault.CONFLICT:
            self._refuse(409)
        elif fault in (Fault.UNAVAILABLE, Fault.UNAVAILABLE_AFTER):
            self._refuse(503)
        elif fault in (Fault.SLOW, Fault.SLOW_AFTER):
            self.the_proxy.released.wait()
        elif fault is Fault.CUT_WITHIN:
            self.send_response(200)
            self.send_header('Content-Length', str(len(answer) + 10))
            self.end_headers()
            self.wfile.write(answer[: len(answer) // 2])

    def _refuse(self, status: int) -> None:
        body = json.dumps({'errors': [{'detail': 'by the proxy'}]}).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(body)))
        # Or the client sends its next request to a connection that ends.
        self.send_header('Connection', 'close')
        self.end_headers()
        self.wfile.write(body)
