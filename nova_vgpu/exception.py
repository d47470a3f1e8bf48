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
    """An error whose text is meant for the operator."""


class InvalidLibvirtGPUConfig(NovaVGPUError):
    """The configuration is invalid.

    Carries every problem, not only the first.
    """

    def __init__(self, problems: Iterable[values.Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__('\n'.join(str(problem) for problem in self.problems))


class UsageError(NovaVGPUError):
    """Options of a command are invalid or contradict each other."""


class RequestRefusedError(NovaVGPUError):
    """This host cannot serve the requested types.

    Carries every reason, not only the first.
    """

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__('\n'.join(self.reasons))


class ConfigFileError(NovaVGPUError):
    """A configuration file cannot be read."""


class HostUnreadable(NovaVGPUError):
    """The host cannot be read (no sysfs, no libvirt)."""


class NoSuchDevice(NovaVGPUError):
    """The host does not have the requested device."""


class NotAvailable(NovaVGPUError):
    """A device cannot be used as requested at the moment."""


class StateUnusable(NovaVGPUError):
    """A state file cannot be read or written."""


class BusyError(NovaVGPUError):
    """Timed out waiting for another process."""


class StepFailed(NovaVGPUError):
    """A change of the host failed."""

    def __init__(self, message: str, cure: str) -> None:
        super().__init__(f'{message} {cure}')
        self.message = message
        self.cure = cure


class StepTimedOut(StepFailed):
    """A change of the host does not end; the kernel may hang in it."""


class PlanOutdated(StepFailed):
    """The host has changed since the plan was made; nothing was done."""


class InUseError(NovaVGPUError):
    """A change of the host is refused: the device is in use."""

    def __init__(self, refusal: values.Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class StateDamaged(StateUnusable):
    """A state file, or the journal, is invalid."""


class PlacementError(NovaVGPUError):
    """A request to Placement failed."""


class PlacementForbidden(PlacementError):
    """Placement refuses: the account does not have the role."""


class CloudError(NovaVGPUError):
    """A request to another service of the cloud failed."""


class NotInCloud(NovaVGPUError):
    """The cloud does not have what a command asks for."""


class FlavorConflict(NovaVGPUError):
    """A flavor exists and may not be changed as requested."""


class NodesRefused(NovaVGPUError):
    """Nodes of a cluster cannot be rendered as they are asked for.

    Carries every reason, not only the first.
    """

    def __init__(self, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__('\n'.join(self.reasons))
