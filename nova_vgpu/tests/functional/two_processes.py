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

"""One process applies while another one gives out vGPUs, on one machine.

A program, because processes are forked: whoever runs the tests has threads,
and locks that may be held at that moment. ``NOVA_VGPU_SECONDS`` says for how
long.
"""

import contextlib
import multiprocessing
import os
import time
import traceback
import typing
import uuid

from oslo_concurrency import lockutils

from nova_vgpu import values
from nova_vgpu.host import locks
from nova_vgpu.host import mdevs
from nova_vgpu.host.type_backends import nvidia
from nova_vgpu.lifecycle import apply
from nova_vgpu.lifecycle import host_access
from nova_vgpu.reconcile import vgpu_facts
from nova_vgpu.sandbox import libvirt_connection
from nova_vgpu.tests import live
from nova_vgpu.tests import plans
from nova_vgpu.tests import shared_machine

FORK = multiprocessing.get_context('fork')
SECONDS = float(os.environ.get('NOVA_VGPU_SECONDS', '8'))
PATIENCE = 200.0
_BOOT_SECONDS = 0.1

#: The commands go back and forth between these, nova-compute has the first.
DECLARATIONS = (
    live.ALL_THREE,
    live.ALL_THREE.replace('[devices]', '[devices]\nvgpu_creation = ahead'),
    live.ALL_THREE.replace('T4-4Q', 'T4-8Q')
    .replace('A10-12Q', 'A10-8Q')
    .replace('L40S-24Q', 'L40S-12Q'),
)


def main() -> None:
    """Let both work, and print how much they did.

    :raises AssertionError: if one of them failed, or does not end.
    """
    with live.LiveHost(*live.bare_gpus()) as host:
        failures = host.apply(live.ALL_THREE).failures
        if failures:
            raise AssertionError(str(failures))
        with shared_machine.share(host.machine) as shared:
            shared = typing.cast(typing.Any, shared)
            access = _surroundings(host, shared)
            with contextlib.ExitStack() as stack:
                running = [
                    stack.enter_context(_started(_apply, access)),
                    stack.enter_context(
                        _started(_serve, access, shared.libvirt())
                    ),
                ]
                applies, servers = map(_finish, running)
    print(f'{applies} applies, {servers} servers')


def _surroundings(
    host: live.LiveHost, shared: typing.Any
) -> host_access.HostAccess:
    """The machine, as a process other than its own sees it."""

    @contextlib.contextmanager
    def connect() -> typing.Iterator[libvirt_connection.Connection]:
        yield libvirt_connection.Connection(shared.libvirt())

    return host.make_host_access(
        tree=shared_machine.SharedFiles(shared.files()),
        connect=connect,
        run=shared.tools().run,
        sleep=time.sleep,
        now=time.monotonic,
    )


@contextlib.contextmanager
def _started(
    work: typing.Callable[..., int], *arguments: typing.Any
) -> typing.Iterator[typing.Any]:
    """Let a process work, which sends what came of it."""
    receiver, sender = FORK.Pipe(duplex=False)

    def run() -> None:
        try:
            sender.send(work(*arguments))
        except BaseException:
            sender.send(traceback.format_exc())
            raise

    process = FORK.Process(target=run)
    process.start()
    sender.close()
    try:
        yield receiver
    finally:
        process.kill()
        process.join()


def _finish(receiver: typing.Any) -> int:
    if not receiver.poll(SECONDS + PATIENCE):
        raise AssertionError('it hangs')
    count = receiver.recv()
    if not isinstance(count, int) or count == 0:
        raise AssertionError(str(count))
    return count


def _apply(access: host_access.HostAccess) -> int:
    """Back and forth; what is refused is refused, nothing fails."""
    count = 0
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        text = DECLARATIONS[count % len(DECLARATIONS)]
        configuration = values.Configuration(live.declare(text))
        outcome = apply.apply(access, configuration, live.Recorder())
        # A GPU can be filled by the other process in the meantime.
        lost = [f for f in outcome.failures if 'o space' not in str(f)]
        lost = [f for f in lost if 'not available' not in str(f)]
        lost = [f for f in lost if 'already' not in str(f)]
        if lost:
            raise AssertionError(str(lost))
        count += 1
    return count


def _serve(access: host_access.HostAccess, libvirt: typing.Any) -> int:
    """Boot and delete servers, under the locks that nova-compute takes."""
    count = 0
    ends = time.monotonic() + SECONDS
    declaration = live.declare(live.ALL_THREE)
    while time.monotonic() < ends:
        server = f'server-{count}'
        with locks.hold_claims(access.locks, 60.0, exclusive=False):
            with lockutils.lock(
                locks.CREATION, external=True, lock_path=access.locks
            ):
                chosen = _choose(access, declaration, count)
            if chosen is None:
                continue
            name, type_name = chosen
            time.sleep(_BOOT_SECONDS)  # images, networks and so on
            if name.startswith('pci_'):
                given = {_address(name): type_name}
                libvirt.define_guest(server, functions=given)
            else:
                libvirt.define_guest(server, mdevs={name: type_name})
            # Fails if the vGPU is gone, or another running server has it.
            libvirt.start_guest(server)
        count += 1
        libvirt.stop_guest(server)
        libvirt.undefine_guest(server)
    return count


def _choose(
    access: host_access.HostAccess,
    declaration: values.Declaration,
    turn: int,
) -> tuple[str, str] | None:
    """An idle vGPU of a GPU, or a new one; None if it has no room."""
    with access.connect() as connection:
        state = host_access.read_state(access, connection, print)
        plan = plans.make_plan(declaration, state.host)
        assigned = plan.assignments[turn % len(plan.assignments)]
        wanted, taken = assigned.type, set(state.usage.owners)
        if wanted is None or wanted.name is None:
            return None
        for name in vgpu_facts.list_idle(assigned, taken):
            return name, wanted.name
        function = next(vgpu_facts.list_rooms(assigned, taken), None)
        if function is None:
            return None
        if assigned.gpu.framework is values.Framework.VENDOR_VFIO:
            backend = nvidia.NvidiaTypes(access.tree)
            backend.set_type(_address(function), wanted.id)
            return function, wanted.name
        made = str(uuid.uuid4())
        persistent = values.MdevState.PERSISTENT
        mdevs.set_state(
            connection, values.Mdev(made, function, wanted.id, persistent)
        )
        return made, wanted.name


def _address(function: str) -> str:
    return '{}:{}:{}.{}'.format(*function.removeprefix('pci_').split('_'))


if __name__ == '__main__':
    main()
