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

Layers exchange only these. They do not depend on files, libvirt, Nova or
Placement.
"""

from nova_vgpu.values.declaration import Creation
from nova_vgpu.values.declaration import Declaration
from nova_vgpu.values.declaration import DeclaredType
from nova_vgpu.values.declaration import PciDeviceSpec
from nova_vgpu.values.declaration import UnlistedGPUs
from nova_vgpu.values.declaration import Written
from nova_vgpu.values.doctor_input import DoctorInput
from nova_vgpu.values.drift_report import DriftReport
from nova_vgpu.values.environment import Environment
from nova_vgpu.values.environment import GPUModes
from nova_vgpu.values.environment import Mode
from nova_vgpu.values.environment import ModesRead
from nova_vgpu.values.environment import SchedulerPolicy
from nova_vgpu.values.environment import UdevCall
from nova_vgpu.values.finding import Evidence
from nova_vgpu.values.finding import Finding
from nova_vgpu.values.gpu import Framework
from nova_vgpu.values.gpu import PhysicalGPU
from nova_vgpu.values.guest import Guest
from nova_vgpu.values.guest import GuestVGPU
from nova_vgpu.values.host import Host
from nova_vgpu.values.host import ReadFault
from nova_vgpu.values.pci import MalformedAddress
from nova_vgpu.values.pci import PciAddress
from nova_vgpu.values.pci import PciIds
from nova_vgpu.values.pci import Sriov
from nova_vgpu.values.placement_tree import Allocation
from nova_vgpu.values.placement_tree import Change
from nova_vgpu.values.placement_tree import Consumer
from nova_vgpu.values.placement_tree import CreateProvider
from nova_vgpu.values.placement_tree import CreateResourceClass
from nova_vgpu.values.placement_tree import CreateTrait
from nova_vgpu.values.placement_tree import DeleteProvider
from nova_vgpu.values.placement_tree import Difference
from nova_vgpu.values.placement_tree import Inventory
from nova_vgpu.values.placement_tree import Move
from nova_vgpu.values.placement_tree import PlacementProvider
from nova_vgpu.values.placement_tree import PlacementTree
from nova_vgpu.values.placement_tree import Reshape
from nova_vgpu.values.placement_tree import SetInventories
from nova_vgpu.values.placement_tree import SetTraits
from nova_vgpu.values.plan import Assignment
from nova_vgpu.values.plan import Capacity
from nova_vgpu.values.plan import LeftAlone
from nova_vgpu.values.plan import Plan
from nova_vgpu.values.plan import Provider
from nova_vgpu.values.plan import Reason
from nova_vgpu.values.plan_input import Configuration
from nova_vgpu.values.plan_input import PlanInput
from nova_vgpu.values.plan_input import TypeNames
from nova_vgpu.values.problem import Problem
from nova_vgpu.values.problem import Severity
from nova_vgpu.values.step import AwaitTypes
from nova_vgpu.values.step import GPUSteps
from nova_vgpu.values.step import MdevState
from nova_vgpu.values.step import Refusal
from nova_vgpu.values.step import RepairDriver
from nova_vgpu.values.step import SetHeterogeneous
from nova_vgpu.values.step import SetMdev
from nova_vgpu.values.step import SetType
from nova_vgpu.values.step import SetVFs
from nova_vgpu.values.step import Step
from nova_vgpu.values.type_request import Fragment
from nova_vgpu.values.type_request import MatchedRequest
from nova_vgpu.values.type_request import Reader
from nova_vgpu.values.type_request import TypeRequest
from nova_vgpu.values.usage import Mdev
from nova_vgpu.values.usage import MdevRecord
from nova_vgpu.values.usage import Usage
from nova_vgpu.values.usage import VGPURecords
from nova_vgpu.values.vgpu import Offer
from nova_vgpu.values.vgpu import Resolution
from nova_vgpu.values.vgpu import TypeFacts
from nova_vgpu.values.vgpu import VGPU
from nova_vgpu.values.vgpu import VGPUType
from nova_vgpu.values.vgpu import VirtualFunction

__all__ = (
    'VGPU',
    'Allocation',
    'Assignment',
    'AwaitTypes',
    'Capacity',
    'Change',
    'Configuration',
    'Consumer',
    'CreateProvider',
    'CreateResourceClass',
    'CreateTrait',
    'Creation',
    'Declaration',
    'DeclaredType',
    'DeleteProvider',
    'Difference',
    'DoctorInput',
    'DriftReport',
    'Environment',
    'Evidence',
    'Finding',
    'Fragment',
    'Framework',
    'GPUModes',
    'GPUSteps',
    'Guest',
    'GuestVGPU',
    'Host',
    'Inventory',
    'LeftAlone',
    'MalformedAddress',
    'MatchedRequest',
    'Mdev',
    'MdevRecord',
    'MdevState',
    'Mode',
    'ModesRead',
    'Move',
    'Offer',
    'PciAddress',
    'PciDeviceSpec',
    'PciIds',
    'PhysicalGPU',
    'PlacementProvider',
    'PlacementTree',
    'Plan',
    'PlanInput',
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
    'SetHeterogeneous',
    'SetInventories',
    'SetMdev',
    'SetTraits',
    'SetType',
    'SetVFs',
    'Severity',
    'Sriov',
    'Step',
    'TypeFacts',
    'TypeNames',
    'TypeRequest',
    'UdevCall',
    'UnlistedGPUs',
    'Usage',
    'VGPURecords',
    'VGPUType',
    'VirtualFunction',
    'Written',
)
