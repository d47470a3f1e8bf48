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

"""Whether Nova's options of the source let the guest stop long enough.

QEMU stops the guest only when what is left can be sent within the downtime
that Nova permits. The state of a vGPU is gigabytes, of which most can be sent
only while the guest is stopped: with the 500 ms that Nova permits by default,
the migration may never come to that.
"""

from collections.abc import Iterator

from nova_vgpu import values
from nova_vgpu.migration import downtime
from nova_vgpu.migration import reasons

POST_COPY = '[libvirt]live_migration_permit_post_copy'
DOWNTIME = '[libvirt]live_migration_downtime'
#: What Nova's documentation recommends for vGPUs: milliseconds, number,
#: seconds.
RECOMMENDED = (500000, 3, 3)
#: Up to what Nova permits by default, in milliseconds.
_USUAL = 500
#: QEMU refuses to migrate VFIO devices by post-copy since this version. (QEMU,
#: hw/vfio/migration.c, vfio_save_prepare().)
POST_COPY_REFUSED = (8, 2, 0)


def check(
    source: values.MigrationSource, bandwidth: int | None = None
) -> Iterator[values.MigrationReason]:
    """Problems of the options.

    :param bandwidth: in MiB/s, if it is known otherwise.
    """
    if not source.is_paused:
        yield from _check_post_copy(source)
    yield from _check_downtime(source, bandwidth)


def _check_post_copy(
    source: values.MigrationSource,
) -> Iterator[values.MigrationReason]:
    qemu = source.software.qemu
    text = (
        f'{POST_COPY} is true on {source.host}. QEMU does not migrate a guest '
        'with a VFIO device by post-copy'
    )
    cure = f'Set {POST_COPY} = false on {source.host}, restart nova-compute.'
    if source.settings.post_copy is None:
        yield reasons.unknown(
            reasons.Code.POST_COPY_UNKNOWN,
            source.host,
            f'It is unknown whether {POST_COPY} is false on {source.host}.',
        )
    elif source.settings.post_copy and qemu is None:
        yield reasons.unknown(
            reasons.Code.POST_COPY_UNKNOWN, source.host, f'{text}.', cure
        )
    elif source.settings.post_copy and qemu and qemu >= POST_COPY_REFUSED:
        yield reasons.prevents(
            reasons.Code.POST_COPY,
            source.host,
            f'{text}: the migration fails when it begins.',
            cure,
        )
    elif source.settings.post_copy:
        yield reasons.advise(
            reasons.Code.POST_COPY,
            source.host,
            f'{text}: the guest is lost if the migration comes to that.',
            cure,
        )


def _check_downtime(
    source: values.MigrationSource, bandwidth: int | None
) -> Iterator[values.MigrationReason]:
    settings = source.settings
    permitted = settings.downtime
    if permitted is None:
        yield reasons.unknown(
            reasons.Code.DOWNTIME_UNKNOWN,
            source.host,
            f'{DOWNTIME} of {source.host} is unknown.',
        )
        return
    expected = downtime.estimate(source, bandwidth)
    needed = _USUAL + 1 if expected is None else expected.seconds * 1000
    if permitted >= needed:
        return
    longest, steps, delay = RECOMMENDED
    because = (
        'which is short for a vGPU'
        if expected is None
        else f'and it takes about {expected.seconds:.1f} s to send the state '
        'of the vGPUs'
    )
    yield reasons.advise(
        reasons.Code.DOWNTIME,
        source.host,
        f'{DOWNTIME} of {source.host} is {permitted} ms, {because}: the '
        'migration may not end.',
        f'Recommended by Nova for vGPUs: {DOWNTIME} = {longest}, '
        f'live_migration_downtime_steps = {steps}, '
        f'live_migration_downtime_delay = {delay}.',
    )
