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

"""A real Placement on loopback, with a database in a directory of its own.

``python -m nova_vgpu.sandbox.placement DIRECTORY`` serves it on a free port
of 127.0.0.1 and prints the port. It ends when its standard input does, so that
it cannot outlive the process that started it.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import threading

from nova_vgpu import exception

TOKEN = 'admin'  # noqa: S105 (all that Placement's noauth2 takes)

# noauth2 has no role "service", which some requests require. With the former
# defaults the administrator may do everything.
_CONFIGURATION = """\
[api]
auth_strategy = noauth2
[oslo_policy]
enforce_new_defaults = False
[placement_database]
connection = sqlite:///{directory}/placement.sqlite
sync_on_startup = True
"""

_ACCESS = """\
[placement]
auth_type = admin_token
token = {token}
endpoint_override = {url}
"""


def access(url: str, token: str = TOKEN) -> str:
    """The lines of nova.conf to connect to it."""
    return _ACCESS.format(token=token, url=url)


@contextlib.contextmanager
def run_placement(directory: pathlib.Path) -> Iterator[str]:
    """A Placement for as long as the context lasts; gives its URL.

    :raises PlacementError: if it does not start.
    """
    directory.mkdir(exist_ok=True)
    with (
        open(directory / 'placement.log', 'wb') as log,
        subprocess.Popen(
            [sys.executable, '-P', '-m', __name__, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Ctrl-C is for the parent, which then stops it.
            start_new_session=True,
        ) as server,
    ):
        try:
            port = server.stdout.readline().strip() if server.stdout else ''
            if not port:
                server.wait()
                raise exception.PlacementError(_why(directory))
            yield f'http://127.0.0.1:{port}'
        finally:
            server.terminate()


def _why(directory: pathlib.Path) -> str:
    last = (directory / 'placement.log').read_text().strip().splitlines()[-1:]
    return (
        f'Placement did not start: {"".join(last) or "no reason given"} (it '
        "comes with the extra: pip install 'nova-vgpu[demo]')"
    )


def main(directory: str) -> None:
    """Serve until standard input ends."""
    # Standard output is for the port alone; Placement's log joins stderr.
    answer = os.dup(1)
    os.dup2(2, 1)
    path = pathlib.Path(directory)
    (path / 'placement.conf').write_text(
        _CONFIGURATION.format(directory=directory)
    )
    os.environ['OS_PLACEMENT_CONFIG_DIR'] = directory
    from placement.wsgi import api
    import waitress

    # waitress has no stop that can be called from another thread.
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    listener = socket.create_server(('127.0.0.1', 0))
    application = api.application
    os.write(answer, f'{listener.getsockname()[1]}\n'.encode())
    # One thread: SQLite takes one writer at a time.
    waitress.serve(application, sockets=[listener], threads=1)


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == '__main__':
    main(sys.argv[1])
