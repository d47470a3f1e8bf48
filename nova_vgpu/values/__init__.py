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

"""The values that flow through the project: frozen, typed, without behaviour.

Everything between two layers is one of these. They know nothing of files,
libvirt, Nova or Placement.
"""

from nova_vgpu.values.declaration import Creation
from nova_vgpu.values.declaration import Declaration
from nova_vgpu.values.declaration import DeclaredType
from nova_vgpu.values.declaration import PciDeviceSpec
from nova_vgpu.values.declaration import UnlistedGPUs
from nova_vgpu.values.declaration import Written
from nova_vgpu.values.examination import Examination
from nova_vgpu.values.finding import Evidence
from nova_vgpu.values.finding import Finding
from nova_vgpu.values.gpu import Framework
from nova_vgpu.values.gpu import PhysicalGPU
from nova_vgpu.values.guest import Guest
from nova_vgpu.values.guest import GuestVGPU
from nova_vgpu.values.held import Allocation
from nova_vgpu.values.held import Change
from nova_vgpu.values.held import CreateProvider
from nova_vgpu.values.held import CreateResourceClass
from nova_vgpu.values.held import CreateTrait
from nova_vgpu.values.held import DeleteProvider
from nova_vgpu.values.held import Difference
from nova_vgpu.values.held import HeldConsumer
from nova_vgpu.values.held import HeldProvider
from nova_vgpu.values.held import HeldTree
from nova_vgpu.values.held import Inventory
from nova_vgpu.values.held import Move
from nova_vgpu.values.held import Reshape
from nova_vgpu.values.held import SetInventories
from nova_vgpu.values.held import SetTraits
from nova_vgpu.values.holdings import Holdings
from nova_vgpu.values.holdings import Kept
from nova_vgpu.values.holdings import KeptMdev
from nova_vgpu.values.holdings import Mdev
from nova_vgpu.values.host import Host
from nova_vgpu.values.host import ReadFault
from nova_vgpu.values.pci import MalformedAddress
from nova_vgpu.values.pci import PciAddress
from nova_vgpu.values.pci import PciIds
from nova_vgpu.values.pci import Sriov
from nova_vgpu.values.plan import Assignment
from nova_vgpu.values.plan import Capacity
from nova_vgpu.values.plan import LeftAlone
from nova_vgpu.values.plan import Plan
from nova_vgpu.values.plan import Provider
from nova_vgpu.values.plan import Reason
from nova_vgpu.values.problem import Problem
from nova_vgpu.values.problem import Severity
from nova_vgpu.values.step import AwaitTypes
from nova_vgpu.values.step import Course
from nova_vgpu.values.step import MdevState
from nova_vgpu.values.step import Refusal
from nova_vgpu.values.step import RepairDriver
from nova_vgpu.values.step import SetMdev
from nova_vgpu.values.step import SetMixing
from nova_vgpu.values.step import SetType
from nova_vgpu.values.step import SetVFs
from nova_vgpu.values.step import Step
from nova_vgpu.values.surroundings import GPUModes
from nova_vgpu.values.surroundings import Mode
from nova_vgpu.values.surroundings import ModesRead
from nova_vgpu.values.surroundings import SchedulerPolicy
from nova_vgpu.values.surroundings import Surroundings
from nova_vgpu.values.surroundings import UdevCall
from nova_vgpu.values.survey import Survey
from nova_vgpu.values.vgpu import Offer
from nova_vgpu.values.vgpu import Resolution
from nova_vgpu.values.vgpu import TypeFacts
from nova_vgpu.values.vgpu import VGPU
from nova_vgpu.values.vgpu import VGPUType
from nova_vgpu.values.vgpu import VirtualFunction
from nova_vgpu.values.wish import Fragment
from nova_vgpu.values.wish import Grant
from nova_vgpu.values.wish import Reader
from nova_vgpu.values.wish import Wish

__all__ = (
    'VGPU',
    'Allocation',
    'Assignment',
    'AwaitTypes',
    'Capacity',
    'Change',
    'Course',
    'CreateProvider',
    'CreateResourceClass',
    'CreateTrait',
    'Creation',
    'Declaration',
    'DeclaredType',
    'DeleteProvider',
    'Difference',
    'Evidence',
    'Examination',
    'Finding',
    'Fragment',
    'Framework',
    'GPUModes',
    'Grant',
    'Guest',
    'GuestVGPU',
    'HeldConsumer',
    'HeldProvider',
    'HeldTree',
    'Holdings',
    'Host',
    'Inventory',
    'Kept',
    'KeptMdev',
    'LeftAlone',
    'MalformedAddress',
    'Mdev',
    'MdevState',
    'Mode',
    'ModesRead',
    'Move',
    'Offer',
    'PciAddress',
    'PciDeviceSpec',
    'PciIds',
    'PhysicalGPU',
    'Plan',
    'Problem',
    'Provider',
    'ReadFault',
    'Reader',
    'Reason',
    'Refusal',
    'RepairDriver',
    'Reshape',
    'Resolution',
    'SchedulerPolicy',
    'SetInventories',
    'SetMdev',
    'SetMixing',
    'SetTraits',
    'SetType',
    'SetVFs',
    'Severity',
    'Sriov',
    'Step',
    'Surroundings',
    'Survey',
    'TypeFacts',
    'UdevCall',
    'UnlistedGPUs',
    'VGPUType',
    'VirtualFunction',
    'Wish',
    'Written',
)
