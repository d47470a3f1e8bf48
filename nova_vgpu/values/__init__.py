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

from nova_vgpu.values.declaration import Creation as Creation
from nova_vgpu.values.declaration import Declaration as Declaration
from nova_vgpu.values.declaration import DeclaredType as DeclaredType
from nova_vgpu.values.declaration import ListedAddress as ListedAddress
from nova_vgpu.values.declaration import PciDeviceSpec as PciDeviceSpec
from nova_vgpu.values.declaration import UnlistedGPUs as UnlistedGPUs
from nova_vgpu.values.declaration import Written as Written
from nova_vgpu.values.findings import describe as describe
from nova_vgpu.values.findings import DoctorInput as DoctorInput
from nova_vgpu.values.findings import Environment as Environment
from nova_vgpu.values.findings import Evidence as Evidence
from nova_vgpu.values.findings import Finding as Finding
from nova_vgpu.values.findings import UdevCall as UdevCall
from nova_vgpu.values.host_hardware import Framework as Framework
from nova_vgpu.values.host_hardware import GIVING_FUNCTIONS as GIVING_FUNCTIONS
from nova_vgpu.values.host_hardware import GPUMode as GPUMode
from nova_vgpu.values.host_hardware import GPUModes as GPUModes
from nova_vgpu.values.host_hardware import Host as Host
from nova_vgpu.values.host_hardware import MalformedAddress as MalformedAddress
from nova_vgpu.values.host_hardware import ModesRead as ModesRead
from nova_vgpu.values.host_hardware import Offer as Offer
from nova_vgpu.values.host_hardware import Partitions as Partitions
from nova_vgpu.values.host_hardware import PciAddress as PciAddress
from nova_vgpu.values.host_hardware import PciIds as PciIds
from nova_vgpu.values.host_hardware import PhysicalGPU as PhysicalGPU
from nova_vgpu.values.host_hardware import ReadFault as ReadFault
from nova_vgpu.values.host_hardware import Resolution as Resolution
from nova_vgpu.values.host_hardware import SchedulerPolicy as SchedulerPolicy
from nova_vgpu.values.host_hardware import split_device as split_device
from nova_vgpu.values.host_hardware import Sriov as Sriov
from nova_vgpu.values.host_hardware import TypeFacts as TypeFacts
from nova_vgpu.values.host_hardware import VFProfiles as VFProfiles
from nova_vgpu.values.host_hardware import VGPU as VGPU
from nova_vgpu.values.host_hardware import VGPUType as VGPUType
from nova_vgpu.values.host_hardware import VirtualFunction as VirtualFunction
from nova_vgpu.values.live_migration import GPUMigration as GPUMigration
from nova_vgpu.values.live_migration import HostSoftware as HostSoftware
from nova_vgpu.values.live_migration import MigrationEffect as MigrationEffect
from nova_vgpu.values.live_migration import MigrationPlace as MigrationPlace
from nova_vgpu.values.live_migration import MigrationReason as MigrationReason
from nova_vgpu.values.live_migration import (
    MigrationSettings as MigrationSettings,  # noqa: H301 - only one
)
from nova_vgpu.values.live_migration import MigrationSource as MigrationSource
from nova_vgpu.values.live_migration import MigrationTarget as MigrationTarget
from nova_vgpu.values.live_migration import MovingDevice as MovingDevice
from nova_vgpu.values.live_migration import (
    UNKNOWN_SETTINGS as UNKNOWN_SETTINGS,  # noqa: H301 - only one
)
from nova_vgpu.values.live_migration import (
    UNKNOWN_SOFTWARE as UNKNOWN_SOFTWARE,  # noqa: H301 - only one
)
from nova_vgpu.values.live_migration import Version as Version
from nova_vgpu.values.live_migration import VGPUMigration as VGPUMigration
from nova_vgpu.values.mig import GPUInstance as GPUInstance
from nova_vgpu.values.mig import GPUInstanceProfile as GPUInstanceProfile
from nova_vgpu.values.mig import GPUInstances as GPUInstances
from nova_vgpu.values.mig import MigType as MigType
from nova_vgpu.values.pcie import Bridge as Bridge
from nova_vgpu.values.pcie import Connection as Connection
from nova_vgpu.values.pcie import DeviceKind as DeviceKind
from nova_vgpu.values.pcie import Distance as Distance
from nova_vgpu.values.pcie import Island as Island
from nova_vgpu.values.pcie import IslandKind as IslandKind
from nova_vgpu.values.pcie import NVLinks as NVLinks
from nova_vgpu.values.pcie import NVLinksRead as NVLinksRead
from nova_vgpu.values.pcie import PcieDevice as PcieDevice
from nova_vgpu.values.pcie import PortType as PortType
from nova_vgpu.values.pcie import Topology as Topology
from nova_vgpu.values.placement_tree import Allocation as Allocation
from nova_vgpu.values.placement_tree import Change as Change
from nova_vgpu.values.placement_tree import Consumer as Consumer
from nova_vgpu.values.placement_tree import CreateProvider as CreateProvider
from nova_vgpu.values.placement_tree import (
    CreateResourceClass as CreateResourceClass,  # noqa: H301 - only one
)
from nova_vgpu.values.placement_tree import CreateTrait as CreateTrait
from nova_vgpu.values.placement_tree import DeleteProvider as DeleteProvider
from nova_vgpu.values.placement_tree import Difference as Difference
from nova_vgpu.values.placement_tree import Inventory as Inventory
from nova_vgpu.values.placement_tree import Move as Move
from nova_vgpu.values.placement_tree import (
    PlacementProvider as PlacementProvider,  # noqa: H301 - only one
)
from nova_vgpu.values.placement_tree import PlacementTree as PlacementTree
from nova_vgpu.values.placement_tree import Reshape as Reshape
from nova_vgpu.values.placement_tree import SetInventories as SetInventories
from nova_vgpu.values.placement_tree import SetTraits as SetTraits
from nova_vgpu.values.planning import Assignment as Assignment
from nova_vgpu.values.planning import Capacity as Capacity
from nova_vgpu.values.planning import Configuration as Configuration
from nova_vgpu.values.planning import Fragment as Fragment
from nova_vgpu.values.planning import LeftAlone as LeftAlone
from nova_vgpu.values.planning import MatchedRequest as MatchedRequest
from nova_vgpu.values.planning import Plan as Plan
from nova_vgpu.values.planning import PlanInput as PlanInput
from nova_vgpu.values.planning import Problem as Problem
from nova_vgpu.values.planning import Provider as Provider
from nova_vgpu.values.planning import Reader as Reader
from nova_vgpu.values.planning import Reason as Reason
from nova_vgpu.values.planning import Severity as Severity
from nova_vgpu.values.planning import Share as Share
from nova_vgpu.values.planning import TypeNames as TypeNames
from nova_vgpu.values.planning import TypeRequest as TypeRequest
from nova_vgpu.values.scheduling import Order as Order
from nova_vgpu.values.scheduling import Orders as Orders
from nova_vgpu.values.scheduling import SchedulingRules as SchedulingRules
from nova_vgpu.values.step import AwaitTypes as AwaitTypes
from nova_vgpu.values.step import DriftReport as DriftReport
from nova_vgpu.values.step import GPUSteps as GPUSteps
from nova_vgpu.values.step import Refusal as Refusal
from nova_vgpu.values.step import RepairDriver as RepairDriver
from nova_vgpu.values.step import SetGPUInstances as SetGPUInstances
from nova_vgpu.values.step import SetHeterogeneous as SetHeterogeneous
from nova_vgpu.values.step import SetMdev as SetMdev
from nova_vgpu.values.step import SetMigMode as SetMigMode
from nova_vgpu.values.step import SetType as SetType
from nova_vgpu.values.step import SetVFProfile as SetVFProfile
from nova_vgpu.values.step import SetVFs as SetVFs
from nova_vgpu.values.step import Step as Step
from nova_vgpu.values.vgpu_slots import TypeSlots as TypeSlots
from nova_vgpu.values.vgpu_usage import Guest as Guest
from nova_vgpu.values.vgpu_usage import GuestDriver as GuestDriver
from nova_vgpu.values.vgpu_usage import GuestLicence as GuestLicence
from nova_vgpu.values.vgpu_usage import GuestVGPU as GuestVGPU
from nova_vgpu.values.vgpu_usage import Mdev as Mdev
from nova_vgpu.values.vgpu_usage import MdevRecord as MdevRecord
from nova_vgpu.values.vgpu_usage import MdevState as MdevState
from nova_vgpu.values.vgpu_usage import Usage as Usage
from nova_vgpu.values.vgpu_usage import VGPURecords as VGPURecords
from nova_vgpu.values.whole_gpus import GPUIsolation as GPUIsolation
from nova_vgpu.values.whole_gpus import IsolationRead as IsolationRead
from nova_vgpu.values.whole_gpus import (
    PassthroughRequest as PassthroughRequest,  # noqa: H301 - only one
)
from nova_vgpu.values.whole_gpus import PciFunction as PciFunction
from nova_vgpu.values.whole_gpus import Role as Role
