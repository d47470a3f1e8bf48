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

"""A host whose PCI devices Nova tracks in Placement, beside its GPUs."""

import typing

import nova.conf
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_vgpu
from oslo_serialization import jsonutils

from nova_vgpu.tests.functional.compute import base

CONF = nova.conf.CONF
GPU = f'host1_{fakelibvirt.MDEVCAP_DEV2_PCI_ADDR}'


class BesidePciTest(base.OurDriver, test_vgpu.VGPUTestBase):
    """A card to pass through, an SR-IOV NIC, and a GPU with vGPUs."""

    def setUp(self) -> None:
        super().setUp()
        products = (fakelibvirt.PCI_PROD_ID, fakelibvirt.VF_PROD_ID)
        self.flags(
            group='pci',
            report_in_placement=True,
            device_spec=[
                jsonutils.dumps({'vendor_id': '8086', 'product_id': product})
                for product in products
            ],
            alias=[
                jsonutils.dumps(
                    {
                        'vendor_id': '8086',
                        'product_id': fakelibvirt.PCI_PROD_ID,
                        'name': 'card',
                    }
                )
            ],
        )
        self.flags(pci_in_placement=True, group='filter_scheduler')
        self.flags(
            enabled_mdev_types=[fakelibvirt.NVIDIA_11_VGPU_TYPE],
            group='devices',
        )
        self.compute = self.start_compute_with_vgpu(
            'host1',
            fakelibvirt.HostPCIDevicesInfo(
                num_pci=1, num_pfs=1, num_vfs=2, num_mdevcap=1
            ),
        )

    def providers(self) -> dict[str, typing.Any]:
        """Inventories and traits of all providers of the node."""
        root = self.compute_rp_uuids['host1']
        return {
            self.placement.get(f'/resource_providers/{uuid}').body['name']: (
                self._get_provider_inventory(uuid),
                sorted(self._get_provider_traits(uuid)),
            )
            for uuid in self._get_all_rp_uuids_in_a_tree(root)
        }

    def test_each_has_its_own_over_a_reload_and_a_restart(self) -> None:
        before = self.providers()
        tracked = [
            name
            for name, (_, traits) in before.items()
            if 'COMPUTE_MANAGED_PCI_DEVICE' in traits
        ]
        self.assertEqual(2, len(tracked), before)
        self.assertIn('VGPU', before[GPU][0])
        flavor = self._create_flavor(
            extra_spec={
                'resources:VGPU': '1',
                'pci_passthrough:alias': 'card:1',
            }
        )
        server = self._create_server(flavor_id=flavor, networks='none')
        after_boot = self.providers()
        self._run_periodics(raise_on_error=True)
        self.assertEqual(after_boot, self.providers())
        # SIGHUP: what can be changed while it runs, and Nova's own reset.
        CONF.mutate_config_files()
        self.compute.manager.reset()
        self._run_periodics(raise_on_error=True)
        self.assertEqual(after_boot, self.providers())
        self._reboot_server(server, hard=True)
        self._delete_server(server)
        self._run_periodics(raise_on_error=True)
        self.compute = self.restart_compute_service('host1')
        self._run_periodics(raise_on_error=True)
        self.assertEqual(before, self.providers())
