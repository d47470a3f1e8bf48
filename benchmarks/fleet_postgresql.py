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

"""A PostgreSQL of the benchmark's own.

It lives in a temporary directory, is reached by a socket in there and by no
network, and ends with whoever started it. The settings are those that
PostgreSQL comes with, but for the memory, which is enough for every scene.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import typing

import psycopg2

_USER = 'placement'
#: PostgreSQL does not run as root; this is the user of Debian's package.
_ACCOUNT = 'postgres'
_INSTALLED = pathlib.Path('/usr/lib/postgresql')
_SETTINGS = (
    'listen_addresses=',
    'shared_buffers=1GB',
    # No checkpoint while the fleet is loaded.
    'max_wal_size=8GB',
)
_PATIENCE = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Server:
    """A PostgreSQL that runs."""

    directory: pathlib.Path

    def url(self, database: str) -> str:
        """What SQLAlchemy takes."""
        return f'postgresql+psycopg2://{_USER}@/{database}?host={self._socket}'

    def connect(self, database: str) -> typing.Any:
        """A connection in which every statement is a transaction."""
        connection = psycopg2.connect(
            host=self._socket, user=_USER, dbname=database
        )
        connection.autocommit = True
        return connection

    @contextlib.contextmanager
    def database(self, name: str) -> Iterator[str]:
        """An empty database for as long as the context lasts."""
        self._execute(f'CREATE DATABASE {name}')
        try:
            yield name
        finally:
            self._execute(f'DROP DATABASE {name} WITH (FORCE)')

    @property
    def _socket(self) -> str:
        return str(self.directory)

    def _execute(self, statement: str) -> None:
        with (
            contextlib.closing(self.connect('postgres')) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)


@contextlib.contextmanager
def run_server() -> Iterator[Server]:
    """A PostgreSQL for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix='fleet-') as name:
        directory = pathlib.Path(name)
        if os.geteuid() == 0:
            shutil.chown(directory, _ACCOUNT, _ACCOUNT)
        data = directory / 'data'
        _initialise(data)
        with (
            open(directory / 'postgresql.log', 'wb') as log,
            subprocess.Popen(
                [
                    # The last resort, if no process is left to stop it.
                    *_as_account('--pdeathsig', 'INT'),
                    *(_program('postgres'), '-D', data, '-k', directory),
                    *(part for each in _SETTINGS for part in ('-c', each)),
                ],
                stdout=log,
                stderr=log,
                cwd=directory,
                # Ctrl-C is for the parent, which then ends it in good order.
                start_new_session=True,
            ) as process,
        ):
            try:
                server = Server(directory)
                _wait(server, process)
                yield server
            finally:
                # Does not wait for connections to be closed.
                process.send_signal(signal.SIGINT)


def _initialise(data: pathlib.Path) -> None:
    subprocess.run(
        [
            *_as_account(),
            *(_program('initdb'), '-D', data, '-U', _USER),
            # Other users cannot reach the socket in its directory.
            *('--auth=trust', '--encoding=UTF8', '--locale=C.UTF-8'),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=data.parent,
    )


def _as_account(*options: str) -> list[str]:
    """What to put before a command for it to run without privileges."""
    command = ['setpriv', *options]
    if os.geteuid() == 0:
        command += ['--reuid', _ACCOUNT, '--regid', _ACCOUNT, '--clear-groups']
    return [*command, '--']


def _program(name: str) -> str:
    """Debian keeps what is not for users out of the PATH."""
    found = sorted(_INSTALLED.glob(f'*/bin/{name}'))
    path = str(found[-1]) if found else shutil.which(name)
    if path is None:
        raise FileNotFoundError(
            f'{name} is not installed; it is in the package postgresql.'
        )
    return path


def _wait(server: Server, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            server.connect('postgres').close()
        except psycopg2.OperationalError:
            if process.poll() is not None or time.monotonic() > until:
                log = server.directory / 'postgresql.log'
                raise RuntimeError(
                    f'PostgreSQL did not start: {log.read_text()}'
                ) from None
            time.sleep(0.1)
        else:
            return
