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

"""What the doctor finds on a host."""

import dataclasses

from nova_vgpu.values import problem


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """A source and the value found there.

    ``source`` is a file, an option or a function of NVML.
    """

    source: str
    value: str

    def __str__(self) -> str:
        return f'{self.source}: {self.value}'


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One finding about the host.

    ``code`` is stable, for machines. ``subject`` is the GPU, the option or
    the part of the host concerned. ``text`` says what was found and ``cure``
    what to do; a note may have no cure.
    """

    severity: problem.Severity
    code: str
    subject: str
    text: str
    evidence: tuple[Evidence, ...] = ()
    cure: str = ''
