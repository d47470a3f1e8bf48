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

"""What is wrong with the vGPUs of a cloud: flavors, providers and limits."""

from collections.abc import Iterable

from nova_vgpu import values
from nova_vgpu.cloud.diagnose import examination
from nova_vgpu.cloud.diagnose import flavor_findings
from nova_vgpu.cloud.diagnose import limit_findings
from nova_vgpu.cloud.diagnose import provider_findings
from nova_vgpu.cloud.diagnose import unservable_findings
from nova_vgpu.cloud.diagnose import whole_gpu_findings


def diagnose(
    examined: examination.Examination,
) -> tuple[values.Finding, ...]:
    """Every finding, in order of severity."""
    return _sort(
        (
            *diagnose_flavors(examined),
            *provider_findings.find(examined),
            *limit_findings.find(examined),
        )
    )


def diagnose_flavors(
    examined: examination.Examination,
) -> tuple[values.Finding, ...]:
    """Those about flavors: only GPUs and flavors have to be read for it."""
    return _sort(
        (
            *flavor_findings.find(examined),
            *unservable_findings.find(examined),
            *whole_gpu_findings.find(examined),
        )
    )


def _sort(found: Iterable[values.Finding]) -> tuple[values.Finding, ...]:
    ranks = list(values.Severity)
    return tuple(sorted(found, key=lambda f: ranks.index(f.severity)))
