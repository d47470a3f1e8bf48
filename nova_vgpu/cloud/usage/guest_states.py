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

"""The driver and the licence of a guest, as its host tells through NVML.

Only a running guest with a vGPU of NVIDIA tells its host. Servers of which
nothing is known are not in the answers.
"""

from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses

from nova_vgpu import values
from nova_vgpu.cloud.hosts import host_agents
from nova_vgpu.cloud.usage import reasons

_NO_DRIVER = 'none'
_UNKNOWN = values.GuestLicence.UNKNOWN.value
#: What a licence that is missing leads to.
_MISSING = {
    values.GuestLicence.UNINITIALIZED.value: 'has not asked for its licence',
    values.GuestLicence.UNRESTRICTED.value: (
        'has no licence, and is not slowed down yet'
    ),
    values.GuestLicence.RESTRICTED.value: (
        'has no licence, and is slowed down'
    ),
    values.GuestLicence.UNLICENSED.value: 'has no licence',
}


@dataclasses.dataclass(frozen=True, slots=True)
class GuestState:
    """What is known of a guest; a text has several, if its vGPUs differ."""

    driver: str | None = None
    licence: str | None = None


def summarise(guests: Sequence[host_agents.Guest]) -> GuestState:
    """The driver and the licence of the vGPUs of one server."""
    return GuestState(
        _join(guest.driver for guest in guests),
        _join(
            guest.licence
            for guest in guests
            if guest.licence != _UNKNOWN and guest.driver != _NO_DRIVER
        ),
    )


def _join(texts: Iterator[str]) -> str | None:
    return ', '.join(sorted({text for text in texts if text})) or None


def judge(guests: Sequence[host_agents.Guest]) -> Iterator[reasons.Reason]:
    """What is wrong with the driver or the licence of a running server."""
    drivers = {guest.driver for guest in guests}
    if _NO_DRIVER in drivers:
        yield reasons.Reason(
            reasons.Code.NO_DRIVER,
            reasons.State.ATTENTION,
            'The guest has loaded no driver for its vGPU.',
            'In the guest, "nova-vgpu guest facts" tells which driver it '
            'needs; "nova-vgpu guest cloud-init" installs it.',
        )
    licences = {g.licence for g in guests if g.driver != _NO_DRIVER}
    for licence, text in _MISSING.items():
        if licence in licences:
            yield reasons.Reason(
                reasons.Code.UNLICENSED,
                reasons.State.ATTENTION,
                f'The driver in the guest {text}.',
                'In the guest, look at the token in '
                '/etc/nvidia/ClientConfigToken, whether the licence server '
                'can be reached, and at "journalctl -u nvidia-gridd".',
            )
