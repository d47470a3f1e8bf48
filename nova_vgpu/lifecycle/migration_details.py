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

"""What a host tells about live migrations, as metrics.

Numbers of vGPUs are those of running guests. What is unknown has no series,
or an empty label.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.lifecycle import details

_YES_NO = {True: 'yes', False: 'no', None: ''}
_ON_OFF = {True: 'on', False: 'off', None: ''}


def describe(report: values.DriftReport) -> Iterator[details.Number]:
    """The host, its options, its GPUs and the vGPUs of its guests."""
    yield _describe_software(report)
    yield from _describe_settings(report.settings)
    told = {of_gpu.address: of_gpu for of_gpu in report.migration}
    for gpu in report.plan.gpus:
        ecc = report.modes.of(gpu.address).ecc
        of_gpu = told.get(gpu.address) if gpu.address else None
        labels = (
            gpu.framework.value if gpu.framework else '',
            _ON_OFF[ecc.current if ecc else None],
            _YES_NO[of_gpu.can_migrate if of_gpu else None],
        )
        yield 'gpu_info', (str(gpu), *labels), 1
        if of_gpu is not None:
            yield from _describe_gpu(of_gpu)


def _describe_software(report: values.DriftReport) -> details.Number:
    found = report.software
    labels = (
        found.kernel or '',
        _write(found.libvirt),
        _write(found.qemu),
        report.modes.driver_version or found.driver or '',
        _YES_NO[found.dma_logging],
    )
    return 'host_info', labels, 1


def _write(version: values.Version | None) -> str:
    return '.'.join(map(str, version or ()))


def _describe_settings(
    settings: values.MigrationSettings,
) -> Iterator[details.Number]:
    for name, value in (
        ('permit_post_copy', settings.post_copy),
        ('downtime', settings.downtime),
        ('downtime_steps', settings.downtime_steps),
        ('downtime_delay', settings.downtime_delay),
        ('bandwidth', settings.bandwidth),
    ):
        if value is not None:
            yield 'libvirt_option', (f'live_migration_{name}',), value


def _describe_gpu(told: values.GPUMigration) -> Iterator[details.Number]:
    gpu = str(told.address)
    if told.versions is not None:
        for bound, number in zip(('min', 'max'), told.versions, strict=True):
            yield 'gpu_vgpu_version', (gpu, bound), number
    for vgpu in told.vgpus:
        labels = (gpu, vgpu.vgpu, vgpu.server)
        for name, value in (
            ('vgpu_can_migrate', vgpu.can_migrate),
            ('vgpu_version', vgpu.version),
            ('vgpu_state_bytes', vgpu.state_bytes),
        ):
            if value is not None:
                yield name, labels, value
