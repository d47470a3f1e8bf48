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

"""All reasons for and against a live migration, and what follows."""

from collections.abc import Iterable
import enum

from nova_vgpu import values
from nova_vgpu.migration import capacity_checks
from nova_vgpu.migration import device_checks
from nova_vgpu.migration import settings_checks
from nova_vgpu.migration import software_checks

_ORDER = list(values.MigrationEffect)


class Verdict(enum.Enum):
    """Whether a live migration to a host is possible."""

    YES = 'yes'
    UNKNOWN = 'unknown'
    NO = 'no'


def check(
    source: values.MigrationSource,
    target: values.MigrationTarget,
    bandwidth: int | None = None,
) -> tuple[values.MigrationReason, ...]:
    """All reasons, each once, the most severe first.

    :param bandwidth: in MiB/s, in place of Nova's limit.
    """
    return sort(
        (
            *device_checks.check(source, target),
            *capacity_checks.check(source, target),
            *software_checks.check(source, target),
            *settings_checks.check(source, bandwidth),
        )
    )


def sort(
    found: Iterable[values.MigrationReason],
) -> tuple[values.MigrationReason, ...]:
    return tuple(
        sorted(
            dict.fromkeys(found), key=lambda each: _ORDER.index(each.effect)
        )
    )


def list_refusals(
    found: Iterable[values.MigrationReason],
) -> tuple[values.MigrationReason, ...]:
    """The reasons for which a live migration fails for sure."""
    return tuple(
        each
        for each in found
        if each.effect is values.MigrationEffect.PREVENTS
    )


def judge(found: Iterable[values.MigrationReason]) -> Verdict:
    effects = {each.effect for each in found}
    if values.MigrationEffect.PREVENTS in effects:
        return Verdict.NO
    if values.MigrationEffect.UNKNOWN in effects:
        return Verdict.UNKNOWN
    return Verdict.YES
