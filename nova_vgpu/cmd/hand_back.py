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

"""``nova-vgpu provider hand-back``: return to Nova's own driver."""

import argparse

from nova_vgpu.cmd import provider
from nova_vgpu.publish import providers


class HandBack(provider.ChangePlacement):
    """Change Placement to the layout of Nova's own driver.

    Run it after nova-compute was stopped and before it is started with Nova's
    driver. Allocations of a GPU move to the providers of the virtual functions
    that have the servers' vGPUs, and the GPU's provider is deleted. GPUs
    without virtual functions have the same provider with both drivers.

    libvirt shows which guest uses which vGPU, so "--libvirt" is required. If
    the vGPUs of any server are ambiguous, nothing is changed. Each change is
    printed when it is made. If there is nothing to change, nothing is written.
    """

    def make_target(self, parsed_args: argparse.Namespace) -> providers.Target:
        # First: without libvirt nothing else needs to be read.
        guests = self.source.read_guests()
        return providers.Target(
            provider.read_plan(self),
            provider.node_of(self, parsed_args),
            providers.Mode.HAND_BACK,
            guests=guests,
        )
