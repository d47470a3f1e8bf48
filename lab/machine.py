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

"""The guest: an emulated machine with fake GPUs, run by QEMU.

It is emulated, or run by KVM where that boots a kernel, which is tried: some
machines have /dev/kvm and cannot. It has no network but one port, which leads
to Placement on the loopback of this machine.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import subprocess
import time

from lab import agent
from lab import cache

_BOOT_SECONDS = 300.0
_PROBE_SECONDS = 20.0
_STOP_SECONDS = 60.0
_PROBED = 'this accelerator boots a kernel'
_BOOT_ID = '/proc/sys/kernel/random/boot_id'

_EMULATED = ('tcg,thread=multi,tb-size=512', 'max,svm=off')
_VIRTUAL = ('kvm', 'host')

#: Where the guest finds Placement.
PLACEMENT = 'http://10.0.2.100:8778'

_COMMAND_LINE = (
    *('console=ttyS0', 'panic=-1', 'quiet', 'mitigations=off', 'nokaslr'),
    *(
        'audit=0',
        'no_timer_check',
        'random.trust_cpu=on',
        'intel_iommu=on',
        'iommu=pt',
    ),
    *('systemd.show_status=no', 'systemd.firstboot=no', 'net.ifnames=0'),
    *(
        f'systemd.mask={unit}'
        for unit in (
            *('getty@tty1.service', 'serial-getty@ttyS0.service'),
            *('systemd-timesyncd.service', 'systemd-update-utmp.service'),
            *('apt-daily.timer', 'apt-daily-upgrade.timer'),
            *('dpkg-db-backup.timer', 'e2scrub_reap.service'),
            *('fstrim.timer', 'e2scrub_all.timer', 'libvirt-guests.service'),
            *('systemd-hwdb-update.service', 'ldconfig.service'),
            *('virtlockd.socket', 'systemd-rfkill.socket'),
            *('systemd-binfmt.service', 'systemd-logind.service'),
            *('systemd-journal-catalog-update.service', 'run-lock.mount'),
            *('modprobe@drm.service', 'modprobe@efi_pstore.service'),
            *('sys-kernel-debug.mount', 'sys-kernel-tracing.mount'),
            *('systemd-sysusers.service', 'systemd-random-seed.service'),
            *('systemd-machine-id-commit.service', 'dev-hugepages.mount'),
        )
    ),
)

# A Tesla T4, an A10, an L40S, an A100, a GVT-g and a B60, as the kernel
# modules have them. A VF needs a port of its own bus, and interrupts of its
# controller. The A100 is the one with five of them.
_SRIOV = 'sriov_max_vfs=4,sriov_vq_flexible=8,sriov_vi_flexible=4'
_SRIOV_A100 = 'sriov_max_vfs=5,sriov_vq_flexible=10,sriov_vi_flexible=5'
_GPUS = (
    *('-device', 'intel-iommu,intremap=on'),
    *('-device', 'edu,addr=0x10'),
    *('-device', 'pci-testdev,addr=0x11'),
    *('-device', 'nvme-subsys,id=a10'),
    *('-device', 'pcie-root-port,id=port1,chassis=1,slot=1,addr=0x12'),
    *('-device', f'nvme,serial=a10,subsys=a10,bus=port1,{_SRIOV}'),
    *('-device', 'nvme-subsys,id=l40s'),
    *('-device', 'pcie-root-port,id=port2,chassis=2,slot=2,addr=0x13'),
    '-device',
    f'nvme,serial=l40s,subsys=l40s,bus=port2,use-intel-id=on,{_SRIOV}',
    *('-device', 'nvme-subsys,id=a100'),
    *('-device', 'pcie-root-port,id=port3,chassis=3,slot=3,addr=0x14'),
    *('-device', f'nvme,serial=a100,subsys=a100,bus=port3,{_SRIOV_A100}'),
    *('-device', 'pcie-root-port,id=port4,chassis=4,slot=4,addr=0x15'),
    *('-device', 'igb,bus=port4'),
)


class Machine:
    """A guest that runs; gives commands to it."""

    def __init__(
        self,
        process: 'subprocess.Popen[bytes]',
        its_agent: agent.Agent,
        directory: pathlib.Path,
    ) -> None:
        self._process = process
        self._agent = its_agent
        self._directory = directory

    def wait(self) -> None:
        """Wait until it has booted.

        :raises Unreachable: if it does not.
        """
        self._agent.wait(_BOOT_SECONDS, self._is_alive)

    def run(self, *argv: str, seconds: float, show: cache.Show) -> int:
        """Run a program in it; gives its exit code.

        :raises Unreachable: if the guest ends, or the program does not.
        """
        return self._agent.run(argv, seconds, show)

    def read(self, *argv: str) -> str:
        """What a program prints there, which is to end well.

        :raises Unreachable: if it does not.
        """
        text: list[str] = []
        code = self.run(*argv, seconds=_BOOT_SECONDS, show=text.append)
        if code:
            raise agent.Unreachable(
                f'{" ".join(argv)} ended with {code}: {"".join(text)}'
            )
        return ''.join(text)

    def reboot(self) -> None:
        """Reboot it in good order, and wait until it is up again.

        :raises Unreachable: if it does not come up.
        """
        before = self.read('cat', _BOOT_ID)
        self._agent.reboot()
        ends = time.monotonic() + _BOOT_SECONDS
        while time.monotonic() < ends:
            self.wait()
            try:
                if self.read('cat', _BOOT_ID) != before:
                    return
            except agent.Unreachable:
                continue  # it was still the old one, which has ended
        raise agent.Unreachable('The guest does not reboot.')

    def keep_journal(self) -> None:
        """Keep what its services said beside its other logs, if it answers."""
        with contextlib.suppress(agent.Unreachable):
            text = self.read(
                *('journalctl', '--no-pager', '-o', 'short-monotonic')
            )
            (self._directory / 'journal.log').write_text(text)

    def stop(self) -> None:
        self._agent.close()
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _is_alive(self) -> bool:
        return self._process.poll() is None


@contextlib.contextmanager
def started(
    its: cache.Cache, directory: pathlib.Path, over: pathlib.Path, port: int
) -> Iterator[Machine]:
    """A guest for as long as the context lasts.

    :param directory: for this guest alone: for its disk and its logs.
    :param over: what is to be over the root of the guest.
    :param port: of Placement, on loopback.
    """
    directory.mkdir(exist_ok=True)
    disk = directory / 'state.img'
    with open(disk, 'wb') as file:
        file.truncate(4 << 30)
    mkfs = [*its.program('usr/sbin/mke2fs'), '-q', '-t', 'ext4', '-F']
    its.run('state', [*mkfs, str(disk)])
    accelerator, cpu = _VIRTUAL if _boots_with_kvm(its) else _EMULATED
    argv = [
        # However this program ends, the guest ends with it.
        *('setpriv', '--pdeathsig', 'TERM'),
        *_qemu(its, accelerator, cpu),
        *('-serial', f'file:{directory}/console.log'),
        *_disks(its, directory, over),
        *_channels(directory),
        *_network(its, port),
        *_GPUS,
    ]
    with open(directory / 'qemu.log', 'wb') as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(its),
            # Ctrl-C is for this program, which then ends it.
            start_new_session=True,
        )
    machine = Machine(
        process,
        agent.Agent(directory / 'agent.sock', directory / 'output'),
        directory,
    )
    try:
        yield machine
    finally:
        machine.stop()


def _environment(its: cache.Cache) -> dict[str, str]:
    modules = its.rootfs / 'usr/lib/x86_64-linux-gnu/qemu'
    return {**os.environ, 'QEMU_MODULE_DIR': str(modules)}


def _qemu(its: cache.Cache, accelerator: str, cpu: str) -> list[str]:
    share = its.rootfs / 'usr/share'
    return [
        *its.program('usr/bin/qemu-system-x86_64'),
        *('-L', f'{share}/qemu', '-L', f'{share}/seabios'),
        *('-accel', accelerator, '-cpu', cpu, '-smp', '1', '-m', '2048'),
        *('-M', 'q35,kernel-irqchip=split'),
        *('-nodefaults', '-no-user-config', '-display', 'none'),
        *('-kernel', str(its.kernel), '-initrd', str(its.initrd)),
        *('-append', ' '.join(_COMMAND_LINE)),
    ]


def _disks(
    its: cache.Cache, directory: pathlib.Path, over: pathlib.Path
) -> list[str]:
    base = f'file={its.image},format=raw,if=virtio,readonly=on'
    state = f'file={directory}/state.img,format=raw,if=virtio,cache=unsafe'
    return [
        *('-drive', base, '-drive', state, '-virtfs'),
        f'local,path={over},mount_tag=project,'
        'security_model=none,readonly=on,multidevs=remap',
    ]


def _channels(directory: pathlib.Path) -> list[str]:
    return [
        *('-device', 'virtio-serial'),
        '-chardev',
        f'socket,id=agent,path={directory}/agent.sock,server=on,wait=off',
        '-device',
        'virtserialport,chardev=agent,name=org.qemu.guest_agent.0',
        *('-chardev', f'file,id=output,path={directory}/output'),
        '-device',
        'virtserialport,chardev=output,name=nova-vgpu-lab.output',
    ]


def _network(its: cache.Cache, port: int) -> list[str]:
    # A program for each connection: without, all would share one.
    relay = f'{its.rootfs}/bin/busybox nc 127.0.0.1 {port}'
    address = PLACEMENT.removeprefix('http://')
    return [
        '-netdev',
        f'user,id=net,restrict=on,guestfwd=tcp:{address}-cmd:{relay}',
        *('-device', 'virtio-net-pci,netdev=net,romfile='),
    ]


def _boots_with_kvm(its: cache.Cache) -> bool:
    if not os.access('/dev/kvm', os.R_OK | os.W_OK):
        return False
    argv = _qemu(its, *_VIRTUAL)
    argv[argv.index('-append') + 1] += ' lab.probe'
    try:
        done = subprocess.run(
            [*argv, '-serial', 'stdio', '-no-reboot'],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(its),
            timeout=_PROBE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    return _PROBED.encode() in done.stdout
