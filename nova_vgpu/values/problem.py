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

"""What is wrong, said so that it can be put right."""

import dataclasses
import enum


class Severity(enum.Enum):
    """How bad it is.

    What an operator wrote wrongly stops the service (FATAL); what the hardware
    is not ready for is an ERROR for the GPU concerned and leaves the others
    in service; the rest is worth a look (WARNING), or just to be known (NOTE).
    """

    FATAL = 'fatal'
    ERROR = 'error'
    WARNING = 'warning'
    NOTE = 'note'


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    ``code`` is stable, for machines. ``subject`` is the GPU or the option that
    it is about. ``message`` says what was found, ``cure`` what to do.
    """

    severity: Severity
    code: str
    subject: str
    message: str
    cure: str

    def __str__(self) -> str:
        return f'{self.message} {self.cure}'
