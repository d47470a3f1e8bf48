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


"""What is done to a host, one step at a time.

A step holds nothing but words and numbers, so that it can be written down
before it is done and read again after a crash. Types go by their names where
those are known: a step that is read after a driver upgrade means the same.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class RepairDriver:
    """Take a GPU off the stub driver that an interrupted tool left it on."""

    gpu: str

    def __str__(self) -> str:
        return f'bind GPU {self.gpu} to its own driver again'


@dataclasses.dataclass(frozen=True, slots=True)
class EnableVFs:
    """Enable all virtual functions of a GPU."""

    gpu: str
    total: int

    def __str__(self) -> str:
        return f'enable the {self.total} VFs of GPU {self.gpu}'


@dataclasses.dataclass(frozen=True, slots=True)
class DisableVFs:
    """Disable the virtual functions of a GPU."""

    gpu: str
    total: int

    def __str__(self) -> str:
        return f'disable the {self.total} VFs of GPU {self.gpu}'


@dataclasses.dataclass(frozen=True, slots=True)
class AwaitTypes:
    """Wait until the functions of a GPU show their types."""

    gpu: str

    def __str__(self) -> str:
        return f'wait for the vGPU types of GPU {self.gpu}'


@dataclasses.dataclass(frozen=True, slots=True)
class MixSizes:
    """Let a GPU hold vGPUs of different sizes (heterogeneous mode)."""

    gpu: str

    def __str__(self) -> str:
        return f'let GPU {self.gpu} hold vGPUs of different sizes'


@dataclasses.dataclass(frozen=True, slots=True)
class KeepOneSize:
    """Let a GPU hold vGPUs of one size only, as it comes."""

    gpu: str

    def __str__(self) -> str:
        return f'let GPU {self.gpu} hold vGPUs of one size only'


@dataclasses.dataclass(frozen=True, slots=True)
class SetType:
    """Make a vGPU of a virtual function (vendor-specific VFIO)."""

    gpu: str
    function: str
    type: str

    def __str__(self) -> str:
        return f'set VF {self.function} to {self.type}'


@dataclasses.dataclass(frozen=True, slots=True)
class ClearType:
    """Take back the type of a virtual function that nobody has."""

    gpu: str
    function: str
    type: str

    def __str__(self) -> str:
        return f'clear VF {self.function}, which is an idle {self.type}'


@dataclasses.dataclass(frozen=True, slots=True)
class CreateMdev:
    """Define an mdev, and start it if it is to be there now.

    ``parent`` is the node device name of its function.
    """

    gpu: str
    parent: str
    uuid: str
    type: str
    defined: bool = True
    started: bool = True

    def __str__(self) -> str:
        verb = 'start' if self.started else 'define'
        return f'{verb} mdev {self.uuid} of {self.type}'


@dataclasses.dataclass(frozen=True, slots=True)
class RemoveMdev:
    """Remove an mdev that nobody has, and its definition."""

    gpu: str
    parent: str
    uuid: str
    type: str
    defined: bool = True
    started: bool = True

    def __str__(self) -> str:
        return f'remove mdev {self.uuid}, an idle {self.type}'


Step = (
    RepairDriver
    | EnableVFs
    | DisableVFs
    | AwaitTypes
    | MixSizes
    | KeepOneSize
    | SetType
    | ClearType
    | CreateMdev
    | RemoveMdev
)


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """Something that is not done, because somebody has what it is about."""

    gpu: str
    message: str
    cure: str

    def __str__(self) -> str:
        return f'{self.message} {self.cure}'


@dataclasses.dataclass(frozen=True, slots=True)
class Course:
    """What is to be done to one GPU, in this order, and what is not."""

    gpu: str
    steps: tuple[Step, ...] = ()
    refusals: tuple[Refusal, ...] = ()
