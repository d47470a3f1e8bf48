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

"""The distance of two devices, by the definitions of ``nvidia-smi topo -m``.

Both devices have a chain of bridges below a host bridge. The deepest bridge
that both chains have decides:

* ``PIX``: below it, each chain has at most one more bridge. So the devices
  share a switch (its upstream port is the bridge, its downstream ports are the
  others), or hang directly on the same bridge.
* ``PXB``: there is such a bridge, but more switches are on the way. Both
  devices are below one root port, and the processor is not passed.
* ``PHB``: there is none, but the host bridge is the same.
* ``NODE`` and ``SYS``: other host bridges, of one NUMA node or of several.

A host bridge is a root bus in sysfs (``pci0000:17``). A processor usually has
several: devices on different ones of a socket are ``NODE`` and not ``PHB``.
Retimers and redrivers have no PCI function and do not count.
"""

from collections.abc import Iterator
import itertools

from nova_vgpu import values

Distance = values.Distance


def connect(
    topology: values.Topology, one: values.PcieDevice, other: values.PcieDevice
) -> values.Connection:
    """How two devices of a host are connected."""
    if one.address == other.address:
        return values.Connection(Distance.SELF)
    distance = measure(topology, one, other)
    return values.Connection(
        distance,
        count_nvlinks(topology.nvlinks, one, other),
        _is_redirected(one, other)
        if distance in (Distance.SAME_SWITCH, Distance.SAME_ROOT_PORT)
        else False,
    )


def measure(
    topology: values.Topology, one: values.PcieDevice, other: values.PcieDevice
) -> Distance:
    """The distance of two devices over PCIe alone."""
    if one.host_bridge != other.host_bridge:
        return _compare_nodes(topology, one, other)
    shared = _count_shared(one, other)
    if not shared:
        return Distance.SAME_HOST_BRIDGE
    if max(len(one.bridges), len(other.bridges)) - shared <= 1:
        return Distance.SAME_SWITCH
    return Distance.SAME_ROOT_PORT


def count_nvlinks(
    read: values.NVLinksRead, one: values.PcieDevice, other: values.PcieDevice
) -> int:
    """How many NVLinks join two GPUs, directly or by NVSwitches."""
    links, others = read.of(one.address), read.of(other.address)
    if links is None or others is None:
        return 0
    direct = dict(links.to_gpus).get(other.address, 0)
    return direct or min(links.to_switches, others.to_switches)


def _compare_nodes(
    topology: values.Topology, one: values.PcieDevice, other: values.PcieDevice
) -> Distance:
    if None in (one.numa_node, other.numa_node):
        # With one node or none, it does not matter that the host is silent.
        is_same = topology.numa_nodes <= 1
    else:
        is_same = one.numa_node == other.numa_node
    return Distance.SAME_NUMA_NODE if is_same else Distance.OTHER_NUMA_NODE


def _count_shared(one: values.PcieDevice, other: values.PcieDevice) -> int:
    """How many bridges both chains begin with."""
    pairs = zip(one.bridges, other.bridges, strict=False)
    return sum(
        1
        for _ in itertools.takewhile(
            lambda pair: pair[0].address == pair[1].address, pairs
        )
    )


def _is_redirected(
    one: values.PcieDevice, other: values.PcieDevice
) -> bool | None:
    """Whether ACS sends requests between two devices to the root complex.

    That is up to the ports where the ways part: a request that comes from
    below to such a port is for another port of the same switch.
    """
    shared = _count_shared(one, other)
    found = {port.redirects for port in _list_parting(shared, one, other)}
    if True in found:
        return True
    return None if None in found else False


def _list_parting(
    shared: int, *devices: values.PcieDevice
) -> Iterator[values.Bridge]:
    """The first port of each device that is not shared."""
    for device in devices:
        yield from device.bridges[shared : shared + 1]
