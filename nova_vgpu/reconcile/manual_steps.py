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


"""What an operator asks for by a command, as steps.

There is one rule for what a step is, and how it is executed; here an operator
decides which one. Everything is checked before the first of them: whether the
device is there, whether nova.conf wants something else of it, and whether it
takes the type now.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching
from nova_vgpu.plan import typos
from nova_vgpu.reconcile import steps


def enable_vfs(gpu: values.PhysicalGPU) -> values.GPUSteps:
    """Enable the VFs of a GPU.

    :raises UsageError: if it has none.
    """
    if gpu.sriov is None or gpu.address is None:
        raise exception.UsageError(
            f'GPU {gpu} has no virtual functions: its vGPUs are on the GPU '
            'itself.'
        )
    if readiness.is_passed_through(gpu):
        raise exception.UsageError(
            f'GPU {gpu} is bound to {gpu.driver}, to be given to a server as '
            'a whole. Bind it to its own driver first.'
        )
    if 0 < len(gpu.vfs) < gpu.sriov.total:
        raise exception.UsageError(
            f'GPU {gpu} has {len(gpu.vfs)} of {gpu.sriov.total} VFs enabled. '
            f'To have all of them: nova-vgpu sriov disable {gpu}, and then '
            'enable them.'
        )
    is_bound = gpu.driver not in (None, readiness.STUB_DRIVER)
    found = [*steps.prepare(gpu, is_bound)]
    made_by = capabilities.vendor_of(gpu)
    if not gpu.types and made_by is not None and made_by.type_prefixes:
        found.append(values.AwaitTypes(str(gpu)))
    return values.GPUSteps(str(gpu), tuple(found))


def disable_vfs(gpu: values.PhysicalGPU) -> values.GPUSteps:
    """Disable the VFs of a GPU; who has one is asked when it is done."""
    if not gpu.vfs:
        return values.GPUSteps(str(gpu))
    step = values.SetVFs(str(gpu), len(gpu.vfs), 0)
    return values.GPUSteps(str(gpu), (step,))


def enable_device(
    host: values.Host,
    usage: values.Usage,
    plan: values.Plan,
    device: str,
    wanted: str,
    new_uuid: Callable[[], str],
) -> steps.VGPUStep:
    """Make a vGPU of a function, or on a GPU.

    :param device: a VF, or a GPU: then on itself, or on its first VF that
        takes the type.
    :raises NoSuchDevice: if it is not there.
    :raises NotAvailable: if it does not take the type now.
    :raises InvalidLibvirtGPUConfig: if it is not known what the GPU is to
        serve, because ids in nova.conf changed their meaning.
    """
    gpu, vf = _find(host, device)
    _require_known(gpu, wanted, type_matching.list_type_names(host))
    _require_declared(plan, gpu, wanted)
    places = {mdev.parent for mdev in usage.mdevs} - {gpu.name}
    taken = places.union(usage.owners)
    if vf is not None and vf.name in taken:
        owner = usage.owners.get(vf.name)
        whose = f'server {owner.uuid} has it' if owner else 'an mdev is there'
        raise exception.NotAvailable(f'{device} takes no vGPU: {whose}.')
    offers = {
        function: types
        for function, types in _list_free(gpu, vf)
        if function not in taken
    }
    if not offers:
        raise exception.NotAvailable(
            f'{device} takes no vGPU: {_why_not(gpu, vf)}.'
        )
    for function, types in offers.items():
        matches = type_matching.find_matches(wanted, types)
        if len(matches) == 1:
            label = steps.label(matches[0])
            return steps.create(gpu, function, label, new_uuid)
    every = {t.id: t for types in offers.values() for t in types}
    known = ', '.join(capabilities.short_name(t) for t in every.values())
    raise exception.NotAvailable(
        f'{wanted} is not available on {device} now. It takes: '
        f'{known or "nothing"}. vGPUs of another size on the same GPU take '
        'types away.'
    )


def disable_device(
    host: values.Host, usage: values.Usage, device: str
) -> steps.VGPUStep | None:
    """Take back a vGPU, by its VF or its UUID; None if it is none.

    :raises NoSuchDevice: if there is no such device.
    """
    names = type_matching.list_type_names(host)
    for mdev in usage.mdevs:
        if mdev.uuid == device.strip().lower():
            gpu = next(
                (str(g) for g in host.gpus if mdev.parent in g.functions),
                mdev.parent,
            )
            vgpu = values.VGPU(mdev.parent, mdev.type_id, mdev.uuid)
            label = names.get(mdev.type_id, mdev.type_id)
            return steps.remove(gpu, vgpu, label, mdev.state)
    recorded = _find_recorded(usage, device)
    if recorded is not None and not _is_vgpu(host, recorded):
        # It is to be one; that ends with this.
        name = usage.records.functions[str(recorded)]
        return values.SetType(_gpu_of(host, recorded), str(recorded), name, '')
    found, vf = _find(host, device)
    if vf is None:
        there = ', '.join(vgpu.name for vgpu in found.all_vgpus) or 'none'
        raise exception.NoSuchDevice(
            f'{device} is a GPU. Name a virtual function or the UUID of a '
            f'vGPU of it: {there}.'
        )
    on_it = [mdev for mdev in usage.mdevs if mdev.parent == vf.name]
    if on_it:
        return disable_device(host, usage, on_it[0].uuid)
    for vgpu in vf.vgpus:
        label = names.get(vgpu.type_id, vgpu.type_id)
        return steps.remove(str(found), vgpu, label, usage.state_of(vgpu.name))
    return None


def _find_recorded(
    usage: values.Usage, device: str
) -> values.PciAddress | None:
    """The function that was enabled by hand, if that is what is meant."""
    try:
        address = values.PciAddress.parse(device)
    except values.MalformedAddress:
        return None
    return address if str(address) in usage.records.functions else None


def _is_vgpu(host: values.Host, address: values.PciAddress) -> bool:
    return any(
        vgpu.name == address.node_device_name
        for gpu in host.gpus
        for vgpu in gpu.all_vgpus
    )


def _gpu_of(host: values.Host, address: values.PciAddress) -> str:
    """The GPU of a function that may not be there now."""
    for gpu in host.gpus:
        if gpu.address is None:
            continue
        every = {vf.address for vf in gpu.vfs}
        if gpu.sriov is not None:
            every.update(gpu.sriov.addresses(gpu.address))
        if address in every:
            return str(gpu)
    return str(address)


def list_available(gpu: values.PhysicalGPU) -> tuple[str, ...]:
    """The types of which the GPU takes one more now, by their short names."""
    found = {
        offer.type.id: offer.type
        for offer in gpu.all_offers
        if offer.available
    }
    return tuple(capabilities.short_name(t) for t in found.values())


def _find(
    host: values.Host, device: str
) -> tuple[values.PhysicalGPU, values.VirtualFunction | None]:
    for gpu in host.gpus:
        if gpu.name == device:
            return gpu, None
    try:
        address = values.PciAddress.parse(device)
    except values.MalformedAddress as error:
        raise exception.NoSuchDevice(
            f'{device} is neither a PCI address nor the UUID of a vGPU of '
            'this host. "nova-vgpu device list" shows them.'
        ) from error
    for gpu in host.gpus:
        if gpu.address == address:
            return gpu, None
        for vf in gpu.vfs:
            if vf.address == address:
                return gpu, vf
    raise exception.NoSuchDevice(
        f'{address} is neither a GPU of this host nor an enabled virtual '
        'function of one. "nova-vgpu device list" shows them.'
    )


def _require_known(
    gpu: values.PhysicalGPU, wanted: str, names: Mapping[str, str]
) -> None:
    """A slip of the pen is told before anything else."""
    types = type_matching.list_types(gpu, names)
    if not types or type_matching.find_matches(wanted, types):
        return
    model = capabilities.model_of(gpu)
    meant = capabilities.complete_name(wanted, model)
    if meant is not None and meant.model == model:
        return  # of the right model; it may be hidden at the moment
    near = typos.find_nearest(
        wanted, [capabilities.short_name(t) for t in types]
    )
    hint = f' Did you mean {near}?' if near else ''
    raise exception.NotAvailable(
        f'GPU {gpu} has no type {wanted}.{hint} "nova-vgpu type list" shows '
        'them.'
    )


def _require_declared(
    plan: values.Plan, gpu: values.PhysicalGPU, wanted: str
) -> None:
    """nova.conf goes first: a vGPU of another type would be taken back."""
    changed = [p for p in plan.problems if p.code == 'type-id-changed']
    for assigned in plan.assignments_of(gpu.name):
        if assigned.type is None:
            if changed:
                raise exception.InvalidLibvirtGPUConfig(changed)
            continue
        if not type_matching.find_matches(wanted, [assigned.type]):
            raise exception.NotAvailable(
                f'GPU {gpu} serves {steps.label(assigned.type)} by '
                f'nova.conf, not {wanted}: {_why(assigned)}. Change that, or '
                'name that type.'
            )


def _why(assigned: values.Assignment) -> str:
    if assigned.reason is values.Reason.LISTED:
        return f'it is in {assigned.declared.option("device_addresses")}'
    return 'it is not listed, and that is the first of the enabled types'


def _list_free(
    gpu: values.PhysicalGPU, vf: values.VirtualFunction | None
) -> Iterator[tuple[str, list[values.VGPUType]]]:
    """The functions that take a vGPU now, with the types they take."""
    if vf is None and gpu.offers:
        yield gpu.name, [o.type for o in gpu.offers if o.available]
    for function in gpu.vfs if vf is None else (vf,):
        if function.offers and not function.vgpus:
            offered = [o.type for o in function.offers if o.available]
            yield function.name, offered


def _why_not(
    gpu: values.PhysicalGPU, vf: values.VirtualFunction | None
) -> str:
    obstacle = readiness.find_obstacle(gpu)
    if obstacle is not None:
        return f'{obstacle.finding}. {obstacle.cure.rstrip(".")}'
    if vf is not None and vf.vgpus:
        return f'it is, or has, vGPU {vf.vgpus[0].name} already'
    return 'the vGPUs that are there leave no room'
