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

"""What is wrong with GPUs, as far as Placement and Nova know.

The findings are those of ``openstack vgpu doctor``, without those about
limits. Problems of a host, such as a driver that does not work, are known to
its agent only.
"""

import collections
from collections.abc import Sequence
import dataclasses
import functools

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.cloud import reader
from nova_vgpu.cloud.diagnose import diagnosis
from nova_vgpu.cloud.diagnose import examiner
from nova_vgpu.cloud.gpus import fleet

_MOST_KINDS = 10
# About a host, but only those of its GPUs that have no type.
_TRAITS_MISSING = 'traits-missing'


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """Findings that differ only in what they are about."""

    first: values.Finding
    count: int

    @property
    def more(self) -> int:
        return self.count - 1


@dataclasses.dataclass(frozen=True)
class Problems:
    """The findings about a cloud, in order of severity.

    ``unknown_because`` is why there are none, if Nova did not answer.
    """

    findings: tuple[values.Finding, ...] = ()
    unknown_because: str | None = None

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The most severe kinds of findings: a page has room for some."""
        return self._kinds[:_MOST_KINDS]

    @property
    def more(self) -> int:
        """The number of kinds that are left out."""
        return len(self._kinds) - len(self.kinds)

    @functools.cached_property
    def _kinds(self) -> tuple[Kind, ...]:
        found = collections.defaultdict(list)
        for finding in self.findings:
            found[finding.code].append(finding)
        return tuple(Kind(each[0], len(each)) for each in found.values())

    def list_of(self, gpu: fleet.GPU) -> tuple[values.Finding, ...] | None:
        """Those about a GPU or its host; None if that is unknown."""
        if self.unknown_because is not None:
            return None
        return tuple(
            finding
            for subject in (gpu.name, gpu.host)
            for finding in self._by_subject.get(subject, ())
            if finding.code != _TRAITS_MISSING or not gpu.facts.types
        )

    @functools.cached_property
    def _by_subject(self) -> dict[str, list[values.Finding]]:
        found = collections.defaultdict(list)
        for finding in self.findings:
            found[finding.subject].append(finding)
        return dict(found)


def read(cloud: reader.Cloud, gpus: Sequence[fleet.GPU]) -> Problems:
    """The problems; Nova is asked for flavors and compute nodes.

    :param gpus: every GPU of the cloud.
    """
    try:
        examined = examiner.examine_gpus(cloud, gpus)
    except exception.NovaVGPUError as error:
        return Problems(unknown_because=str(error))
    return Problems(diagnosis.diagnose(examined))
