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

"""How the services of the cloud are served.

A service is a module that is run with three arguments: its directory, the
file number of a socket that listens already, and the URLs of all services as
JSON. Whoever connects before the service is ready waits in the queue of the
socket. It ends when its standard input does, so that it cannot outlive the
process that started it.
"""

from collections.abc import Callable
import json
import os
import pathlib
import socket
import sys
import threading
import typing

from nova_vgpu.tests.cloud import accounts

Load = Callable[[pathlib.Path, dict[str, str]], typing.Any]


def credentials(account: str, identity: str) -> str:
    """The lines of a section that logs in to Keystone."""
    return f"""\
auth_type = password
auth_url = {identity}
www_authenticate_uri = {identity}
username = {account}
password = {account}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = {accounts.REGION}
service_token_roles_required = True
"""


def set_environment(**variables: str) -> None:
    os.environ.update(variables)


def main(load: Load) -> None:
    """Serve until standard input ends."""
    directory, number, urls = sys.argv[1:]
    # OpenStack's services read it, too.
    sys.argv = ['service']
    # waitress has no stop that can be called from another thread.
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    application = load(pathlib.Path(directory), json.loads(urls))
    import waitress

    listener = socket.socket(fileno=int(number))
    # One thread: SQLite takes one writer at a time.
    waitress.serve(application, sockets=[listener], threads=1)


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)
