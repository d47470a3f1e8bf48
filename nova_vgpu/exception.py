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

"""The exceptions of the project, in one family."""

from collections.abc import Iterable

from nova_vgpu import values


class NovaVGPUError(Exception):
    """Something that the operator has to know, in words meant for them."""


class InvalidLibvirtGPUConfig(NovaVGPUError):
    """The configuration cannot be carried out as it was written.

    Carries every problem, not only the first.
    """

    def __init__(self, problems: Iterable[values.Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__('\n'.join(str(problem) for problem in self.problems))


class UsageError(NovaVGPUError):
    """Options of a command that do not go together."""


class RequestRefusedError(NovaVGPUError):
    """What an operator wishes for is not to be had on this host.

    Carries every reason, not only the first.
    """

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__('\n'.join(self.reasons))


class ConfigFileError(NovaVGPUError):
    """A configuration file cannot be read at all."""


class HostUnreadable(NovaVGPUError):
    """The host as a whole cannot be looked at (no sysfs, no libvirt)."""


class NoSuchDevice(NovaVGPUError):
    """A device that was asked for is not on the host."""


class NotAvailable(NovaVGPUError):
    """A device does not take what was asked of it now."""


class StateUnusable(NovaVGPUError):
    """What is remembered between runs cannot be read or written."""


class BusyError(NovaVGPUError):
    """Another process is at work, and does not end."""


class StepFailed(NovaVGPUError):
    """A change of the host did not work."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__(f'{message} {cure}')
        self.message = message
        self.cure = cure


class PlanOutdated(StepFailed):
    """A change does not fit the host any more; nothing was done."""


class InUseError(NovaVGPUError):
    """A change of the host is refused: somebody has what it is about."""

    def __init__(self, refusal: values.Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class StateDamaged(StateUnusable):
    """What is remembered can be read, but makes no sense.

    A state file, or the journal, is corrupt.
    """


class PlacementError(NovaVGPUError):
    """Placement did not do what it was asked for."""
