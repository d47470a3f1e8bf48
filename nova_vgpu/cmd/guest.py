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


"""``nova-vgpu guest``: run in a guest, or about one."""

import argparse
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
import typing

from cliff import columns

from nova_vgpu import exception
from nova_vgpu.cmd import base
from nova_vgpu.guest import facts

# Problems go to standard error, what is detected is beside what overrides it.
_ONLY_FOR_MACHINES = ('detected', 'problems')
_UNKNOWN = 'unknown'


class Truth(columns.FormattableColumn[bool | None]):
    """Yes, no or unknown, and perhaps who says so."""

    def __init__(self, value: bool | None, note: str = '') -> None:
        super().__init__(value)
        self._note = note

    def human_readable(self) -> str:
        return f'{_say(self._value)}{self._note}'

    def machine_readable(self) -> bool | None:
        return self._value


class Lines(columns.FormattableColumn[typing.Any]):
    """A structure for machines, and the lines of it for people."""

    def __init__(self, value: typing.Any, lines: Iterable[str]) -> None:
        super().__init__(value)
        self._lines = tuple(lines)

    def human_readable(self) -> str:
        return '\n'.join(self._lines) or '-'

    def machine_readable(self) -> typing.Any:
        return facts.make_plain(self._value)


class ShowFacts(base.ShowOne):
    """Show the GPUs of this guest, their driver and licence.

    A vGPU of NVIDIA is recognised by its PCI capability, which also has the
    version and the branch of the host's driver. Run it as root: others cannot
    read PCI capabilities. What cannot be read is "unknown", and a warning says
    why.

    The drivers that can be needed:

      vgpu-guest  for vGPUs of NVIDIA; it serves whole GPUs as well
      datacenter  for whole GPUs of NVIDIA
      vgpu-host   the vGPU manager of NVIDIA: this is a host
      intel, amd  the drivers xe or i915, and amdgpu

    is_virtual_gpu and is_gpu_cluster can be set by the options, by the
    variables NOVA_VGPU_IS_VIRTUAL_GPU and NOVA_VGPU_IS_GPU_CLUSTER, and by
    lines such as "is_virtual_gpu: yes" in /etc/ansible/facts.d/gpu.yaml; the
    first one counts. Such an override decides which driver is needed.

    The same facts as -f json are printed by the file nova_vgpu/guest/facts.py
    alone. Copied into a guest as the executable /etc/ansible/facts.d/gpu.fact,
    it is ansible_local.gpu.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        facts.add_arguments(parser)
        return parser

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[typing.Any, ...]]:
        if self.options.sysfs_root or self.options.libvirt:
            raise exception.UsageError(
                'guest facts reads more than sysfs, and nothing from libvirt: '
                'give --root instead of --sysfs-root and --libvirt.'
            )
        found = facts.collect_as_asked(parsed_args)
        for problem in found.problems:
            self.say(f'warning: {problem}')
        fields = _make_fields(found)
        return tuple(fields), tuple(fields.values())

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: typing.Any,
    ) -> int:
        if parsed_args.formatter == 'table' and not parsed_args.columns:
            kept = [
                (name, value)
                for name, value in zip(column_names, data, strict=True)
                if name not in _ONLY_FOR_MACHINES
            ]
            column_names = [name for name, _ in kept]
            data = tuple(value for _, value in kept)
        return super().produce_output(parsed_args, column_names, data)


def _make_fields(found: facts.Facts) -> dict[str, typing.Any]:
    """The fields by the names that they have in JSON, in that order."""
    columns_of: dict[str, typing.Any] = {
        'has_gpu': Truth(found.has_gpu),
        'is_virtual_gpu': Truth(
            found.is_virtual_gpu, _note(found, facts.IS_VIRTUAL_GPU)
        ),
        'is_gpu_cluster': Truth(
            found.is_gpu_cluster, _note(found, facts.IS_GPU_CLUSTER)
        ),
        'is_guest': Truth(found.is_guest),
        'drivers_needed': base.Words(found.drivers_needed),
        'is_licence_configured': Truth(found.is_licence_configured),
        'gpus': Lines(found.gpus, _list_lines(map(_describe_gpu, found.gpus))),
        'drivers': Lines(
            found.drivers, _list_lines(map(_describe_driver, found.drivers))
        ),
        'detected': Lines(found.detected, ()),
        'overrides': Lines(
            found.overrides,
            (f'{name} ({it.source})' for name, it in found.overrides.items()),
        ),
        'problems': base.Words(found.problems),
    }
    return {
        name: columns_of.get(name, getattr(found, name))
        for name in found._fields
    }


def _note(found: facts.Facts, fact: str) -> str:
    if fact not in found.overrides:
        return ''
    if fact not in found.detected:
        return ' (override)'
    return f' (override; detected: {_say(found.detected[fact])})'


def _say(value: bool | None) -> str:
    return _UNKNOWN if value is None else 'yes' if value else 'no'


def _list_lines(blocks: Iterable[Iterable[str]]) -> Iterator[str]:
    """The lines of all; those behind the first of each are indented."""
    for block in blocks:
        for number, line in enumerate(block):
            yield f'  {line}' if number else line


def _describe_gpu(gpu: facts.GPU) -> Iterator[str]:
    yield f'{gpu.address} {gpu.name or gpu.vendor}'
    yield f'kind: {gpu.kind}; {gpu.reason}'
    subsystem = ':'.join(
        each or _UNKNOWN
        for each in (gpu.subsystem_vendor_id, gpu.subsystem_device_id)
    )
    yield (
        f'PCI: {gpu.vendor_id}:{gpu.device_id}, subsystem {subsystem}, class '
        f'{gpu.pci_class}'
    )
    if gpu.kind == facts.VGPU:
        backed = {True: ', on MIG', None: ''}.get(gpu.is_mig_backed, '')
        yield f'vGPU type: {gpu.vgpu_type or _UNKNOWN}{backed}'
        yield (
            f'host driver: {gpu.host_driver_version or _UNKNOWN}, branch '
            f'{gpu.host_driver_branch or _UNKNOWN}'
        )
    yield (
        f'driver: {gpu.driver_needed or _UNKNOWN} needed, '
        f'{gpu.kernel_driver or "none"} bound'
    )
    licence = gpu.licence
    detail = (
        f' ({licence.product}: {licence.status})' if licence.status else ''
    )
    yield f'licence: {licence.state}{detail}'


def _describe_driver(driver: facts.Driver) -> Iterator[str]:
    yield f'{driver.kind or _UNKNOWN} (module {driver.module})'
    version = f', version {driver.version}' if driver.version else ''
    yield (
        f'installed: {_say(driver.is_installed)}, loaded: '
        f'{_say(driver.is_loaded)}{version}'
    )
    yield f'right kind: {_say(driver.is_right_kind)}; {driver.reason}'
