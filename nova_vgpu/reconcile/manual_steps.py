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

The operator names the one device and the one change, so there is nothing to
reconcile: :func:`nova_vgpu.reconcile.gpu_steps.plan_steps` would have to plan
whole GPUs for a step that is known, and could not say why the step is not
possible. What a step is, what prepares a GPU, which functions take a vGPU and
how it is executed is decided by the same functions as there. Everything is
checked before the first step: whether the device is there, whether nova.conf
wants something else of it, and whether it takes the type now.
"""

from collections.abc import Callable
from collections.abc import Mapping

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.knowledge import capabilities
from nova_vgpu.plan import fixed_vfs
from nova_vgpu.plan import readiness
from nova_vgpu.plan import type_matching
from nova_vgpu.plan import typos
from nova_vgpu.reconcile import gpu_steps
from nova_vgpu.reconcile import steps
from nova_vgpu.reconcile import vgpu_facts


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
    _require_enabler(gpu)
    if 0 < len(gpu.vfs) < gpu.sriov.total:
        raise exception.UsageError(
            f'GPU {gpu} has {len(gpu.vfs)} of {gpu.sriov.total} VFs enabled. '
            f'To have all of them: nova-vgpu sriov disable {gpu}, and then '
            'enable them.'
        )
    return values.GPUSteps(str(gpu), tuple(gpu_steps.prepare(gpu)))


def disable_vfs(gpu: values.PhysicalGPU) -> values.GPUSteps:
    """Disable the VFs of a GPU; who has one is asked when it is done.

    :raises UsageError: if only its driver can, when it is loaded.
    """
    _require_enabler(gpu)
    if not gpu.vfs:
        return values.GPUSteps(str(gpu))
    step = values.SetVFs(str(gpu), len(gpu.vfs), 0)
    return values.GPUSteps(str(gpu), (step,))


def _require_enabler(gpu: values.PhysicalGPU) -> None:
    if fixed_vfs.is_fixed(gpu):
        raise exception.UsageError(
            f'GPU {gpu} has the VFs that its driver, {gpu.driver}, enabled '
            'when it was loaded. The option vf_num of that module has their '
            'number.'
        )


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
    declared_on = _require_declared(plan, gpu, vf, wanted)
    places = {mdev.parent for mdev in usage.mdevs} - {gpu.name}
    taken = places.union(usage.owners)
    if vf is not None and vf.name in taken:
        owner = usage.owners.get(vf.name)
        whose = f'server {owner.uuid} has it' if owner else 'an mdev is there'
        raise exception.NotAvailable(f'{device} takes no vGPU: {whose}.')
    offers = {
        function: types
        for function, types in vgpu_facts.list_takers(gpu)
        if function not in taken
        and function in declared_on
        and (vf is None or function == vf.name)
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
    """Take back a vGPU, by its VF or its UUID; None if the VF has none.

    :raises NoSuchDevice: if there is no such device.
    """
    for mdev in usage.mdevs:
        if mdev.uuid == device.strip().lower():
            vgpu = values.VGPU(mdev.parent, mdev.type_id, mdev.uuid)
            return _remove(host, usage, vgpu)
    recorded = _find_recorded(host, usage, device)
    if recorded is not None:
        return recorded
    gpu, vf = _find(host, device)
    if vf is None:
        there = ', '.join(vgpu.name for vgpu in gpu.all_vgpus) or 'none'
        raise exception.NoSuchDevice(
            f'{device} is a GPU. Name a virtual function or the UUID of a '
            f'vGPU of it: {there}.'
        )
    # First what libvirt has: an mdev that is only defined is there as well.
    vgpus = [
        values.VGPU(mdev.parent, mdev.type_id, mdev.uuid)
        for mdev in usage.mdevs
        if mdev.parent == vf.name
    ]
    for vgpu in (*vgpus, *vf.vgpus):
        return _remove(host, usage, vgpu)
    return None


def _remove(
    host: values.Host, usage: values.Usage, vgpu: values.VGPU
) -> steps.VGPUStep:
    label = type_matching.list_type_names(host).get(vgpu.type_id)
    return steps.remove(
        _name_gpu(host, vgpu.function),
        vgpu,
        label or vgpu.type_id,
        usage.state_of(vgpu.name),
    )


def _find_recorded(
    host: values.Host, usage: values.Usage, device: str
) -> values.SetType | None:
    """End it that a function, which is none now, is to be a vGPU."""
    try:
        address = values.PciAddress.parse(device)
    except values.MalformedAddress:
        return None
    type_name = usage.records.functions.get(str(address))
    name = address.node_device_name
    vgpus = (vgpu for gpu in host.gpus for vgpu in gpu.all_vgpus)
    if type_name is None or any(vgpu.name == name for vgpu in vgpus):
        return None
    return values.SetType(_name_gpu(host, name), str(address), type_name, '')


def _name_gpu(host: values.Host, function: str) -> str:
    """The GPU of a function, which may not be there now."""
    for gpu in host.gpus:
        if function in vgpu_facts.list_functions(gpu):
            return str(gpu)
    return steps.spell(function)


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
    plan: values.Plan,
    gpu: values.PhysicalGPU,
    vf: values.VirtualFunction | None,
    wanted: str,
) -> frozenset[str]:
    """nova.conf goes first: a vGPU of another type would be taken back.

    :returns: the functions of the GPU on which that type may be.
    """
    every = gpu.functions | {gpu.name}
    assignments = plan.assignments_of(gpu.name)
    for assigned in assignments:
        if assigned.type is None:
            changed = [p for p in plan.problems if p.code == 'type-id-changed']
            if changed:
                raise exception.InvalidLibvirtGPUConfig(changed)
        elif type_matching.find_matches(wanted, [assigned.type]):
            if assigned.share is None:
                return every
            if vf is None or vf.name in assigned.functions:
                _require_free(gpu, assigned)
                return assigned.functions
    known = [a for a in assignments if a.type is not None]
    if not known:
        return every
    device = f'GPU {gpu}'
    if vf is not None and any(vf.name in a.functions for a in known):
        known = [a for a in known if vf.name in a.functions]
        device = str(vf.address) if known[0].share else device
    served = ' and '.join(steps.label(a.type) for a in known if a.type)
    raise exception.NotAvailable(
        f'{device} serves {served} by nova.conf, not {wanted}: '
        f'{_why(known[0])}. Change that, or name that type.'
    )


def _require_free(
    gpu: values.PhysicalGPU, assigned: values.Assignment
) -> None:
    """One more than a type's share is for would take up another's."""
    counted = assigned.capacity
    if counted is not None and counted.existing >= counted.total:
        raise exception.NotAvailable(
            f'GPU {gpu} has {counted.existing} vGPUs of '
            f'{assigned.declared.name}. Beside its other types it takes no '
            f'more of them: {_why(assigned)}.'
        )


def _why(assigned: values.Assignment) -> str:
    if assigned.reason is values.Reason.LISTED:
        return f'it is in {assigned.declared.option("device_addresses")}'
    return 'it is not listed, and that is the first of the enabled types'


def _why_not(
    gpu: values.PhysicalGPU, vf: values.VirtualFunction | None
) -> str:
    obstacle = readiness.find_obstacle(gpu)
    if obstacle is not None:
        return f'{obstacle.finding}. {obstacle.cure.rstrip(".")}'
    if vf is not None and vf.vgpus:
        return f'it is, or has, vGPU {vf.vgpus[0].name} already'
    return 'the vGPUs that are there leave no room'
