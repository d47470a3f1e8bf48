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

"""A problem and its cure."""

import dataclasses
import enum


class Severity(enum.Enum):
    """The severity of a problem.

    An invalid configuration stops the service (FATAL). Hardware that is not
    ready is an ERROR for the GPU concerned, and the others still serve.
    WARNING should be checked; NOTE is for information.
    """

    FATAL = 'fatal'
    ERROR = 'error'
    WARNING = 'warning'
    NOTE = 'note'


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    ``code`` is stable, for machines. ``subject`` is the GPU or the option
    concerned. ``message`` says what was found, ``cure`` what to do.
    """

    severity: Severity
    code: str
    subject: str
    message: str
    cure: str

    def __str__(self) -> str:
        return f'{self.message} {self.cure}'
