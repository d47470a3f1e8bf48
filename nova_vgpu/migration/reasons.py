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

"""The reasons for which a live migration fails, or may fail, as codes."""

import enum

from nova_vgpu import values


class Code(enum.Enum):
    """What is the matter, for machines; the documentation explains each."""

    SERVER_STATE = 'server-state'
    HOST_DOWN = 'host-down'
    HOST_DISABLED = 'host-disabled'
    TYPE_MISSING = 'type-missing'
    TYPE_UNKNOWN = 'type-unknown'
    NO_CAPACITY = 'no-capacity'
    FRAMEWORK = 'framework'
    FRAMEWORK_UNKNOWN = 'framework-unknown'
    PASSTHROUGH = 'passthrough'
    PASSTHROUGH_ALIAS = 'passthrough-alias'
    LIBVIRT = 'libvirt'
    LIBVIRT_UNKNOWN = 'libvirt-unknown'
    QEMU = 'qemu'
    QEMU_UNKNOWN = 'qemu-unknown'
    KERNEL = 'kernel'
    KERNEL_UNKNOWN = 'kernel-unknown'
    DMA_LOGGING = 'dma-logging'
    DMA_LOGGING_UNKNOWN = 'dma-logging-unknown'
    DEVICE = 'device'
    DEVICE_UNKNOWN = 'device-unknown'
    DRIVER = 'driver'
    DRIVER_UNKNOWN = 'driver-unknown'
    ECC = 'ecc'
    ECC_UNKNOWN = 'ecc-unknown'
    POST_COPY = 'post-copy'
    POST_COPY_UNKNOWN = 'post-copy-unknown'
    DOWNTIME = 'downtime'
    DOWNTIME_UNKNOWN = 'downtime-unknown'


#: What tells the facts about hosts.
ASK_AGENTS = (
    'Run nova-vgpu agent on the host and let this command ask Prometheus for '
    'its metrics (setting nova_vgpu_prometheus).'
)
ASK_NVML = (
    f'{ASK_AGENTS} It needs NVML: the extra nvml of nova-vgpu and a running '
    'guest.'
)


def prevents(
    code: Code, subject: str, text: str, cure: str
) -> values.MigrationReason:
    """A live migration fails for this reason."""
    return values.MigrationReason(
        values.MigrationEffect.PREVENTS, code.value, subject, text, cure
    )


def unknown(
    code: Code, subject: str, text: str, cure: str = ASK_AGENTS
) -> values.MigrationReason:
    """It is not known whether it fails for this reason."""
    return values.MigrationReason(
        values.MigrationEffect.UNKNOWN, code.value, subject, text, cure
    )


def advise(
    code: Code, subject: str, text: str, cure: str
) -> values.MigrationReason:
    """It may take too long, or go wrong in some cases."""
    return values.MigrationReason(
        values.MigrationEffect.ADVICE, code.value, subject, text, cure
    )
