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

"""The host, read from sysfs repeatedly and incrementally.

nova-compute reads its host every minute and for every server. What can change
is read each time: which functions are on the bus, which vGPUs exist, and how
many more vGPUs of the requested types each function can have. Everything else
is cached as long as the device, its driver and its directories of types stay
the same objects: the kernel numbers them
(:meth:`nova_vgpu.host.files.Files.mark`).

::

    the functions on the bus              the same?   else read everything
    a GPU's driver, VFs and types         the same?   else read this GPU
    the mdevs on their bus                            read if they are new
    free capacity, and types that are set             read each time

All functions of a GPU name the same types, or the GPU is read again until they
do; from then on one of them is read for all. A function that shows types, or
has a vGPU, is still bound to its driver.

Everything else, and every GPU that is in doubt, is read by
:mod:`nova_vgpu.host.sysfs`. What has not changed is the same object as before,
so that decisions on it can be cached.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import contextlib
import dataclasses
import operator
import threading

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.host import files
from nova_vgpu.host import sysfs
from nova_vgpu.host import type_backends
from nova_vgpu.host.type_backends import mdev
from nova_vgpu.host.type_backends import nvidia

Marks = Mapping[str, object]


class _Unsure(Exception):
    """A GPU may have changed; it must be read completely."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Known:
    """A cached GPU, and what shows that it is still the same.

    ``place`` is its directory on the bus, with its ``mark``, and ``places``
    are those of its virtual functions. ``types`` is where its types were read
    from, ``asked`` the types whose free capacity is read.
    """

    gpu: values.PhysicalGPU
    place: str
    places: tuple[str, ...]
    mark: object
    types: mdev.Source | None
    asked: tuple[values.VGPUType, ...]

    @property
    def where(self) -> files.Path:
        return (*files.PCI, self.place)


class IncrementalReader:
    """Reads one host, from any number of threads.

    :param is_wanted: the types whose free capacity is read.
    """

    def __init__(
        self,
        tree: files.Files,
        is_wanted: mdev.IsWanted | None = None,
    ) -> None:
        self.tree = tree
        self._is_wanted = is_wanted
        self._faults: list[values.ReadFault] = []
        self._lock = threading.Lock()
        self._on_bus: Marks = {}
        #: The same, for GPUs that are read again; only if there are any.
        self._addresses: dict[values.PciAddress, str] = {}
        self._host = values.Host()
        self._known: dict[str, _Known] = {}
        self._mdevs = mdev.MdevBus(tree)

    def read(self) -> values.Host:
        """The host as it is now; the same object if nothing has changed.

        :raises HostUnreadable: if sysfs is missing.
        """
        with self._lock:
            again = self._read_again() if self._on_bus else None
            return again or self._read_anew()

    def read_gpu(self, name: str) -> values.PhysicalGPU | None:
        """One GPU as it is now, without reading the others.

        None if the whole host has to be read.
        """
        with self._lock:
            known = self._known.get(name)
            if known is None:
                return None
            try:
                if self.tree.mark(*known.where) != known.mark:
                    return None
                return self._refresh(known, self._mdevs.read())
            except (files.Unreadable, _Unsure):
                return None

    def list_mdevs(self) -> frozenset[str]:
        """The UUIDs of all mdevs, also of those on other devices.

        :raises HostUnreadable: if they cannot be listed.
        """
        try:
            return frozenset(map(str.lower, self._mdevs.list_marked()))
        except files.Unreadable as error:
            raise exception.HostUnreadable(
                f'mdevs cannot be listed: {error}'
            ) from error

    def find_parent(self, uuid: str) -> str | None:
        """The parent function of an mdev; None if the mdev does not exist."""
        with self._lock:
            try:
                return self._mdevs.read_one(uuid)[1].function
            except files.Unreadable:
                return None

    # -- everything ---------------------------------------------------------

    def _read_anew(self) -> values.Host:
        # First: what appears in the meantime is then seen as new next time.
        try:
            on_bus: Marks = self.tree.list_marked(*files.PCI)
        except files.Unreadable:
            on_bus = {}  # and the scan says so
        self._known, self._addresses = {}, {}
        scan = sysfs.Scan(self.tree, self._is_wanted)
        self._host = scan.read(sorted(on_bus))
        self._on_bus = on_bus
        unclear = {fault.device for fault in self._host.faults}
        for gpu in self._host.gpus:
            if unclear.isdisjoint(gpu.functions):
                self._learn(gpu, scan.sources.get(gpu.name))
        return self._host

    def _learn(
        self, gpu: values.PhysicalGPU, source: mdev.Source | None
    ) -> None:
        """Cache a GPU that can be read incrementally from now on."""
        place = str(gpu.address)
        if place in self._on_bus and _is_complete(gpu, source):
            self._known[gpu.name] = _Known(
                gpu,
                place,
                tuple(str(vf.address) for vf in gpu.vfs),
                self._on_bus[place],
                source,
                _list_asked(gpu),
            )

    # -- what can have changed ----------------------------------------------

    def _read_again(self) -> values.Host | None:
        """The host, if the rest of it is certainly unchanged."""
        try:
            on_bus = self.tree.list_marked(*files.PCI)
            if on_bus != self._on_bus or self._host.faults:
                return None
            if not on_bus.keys() >= set(mdev.list_parents(self.tree)) or any(
                gpu.address is None for gpu in self._host.gpus
            ):
                return None  # the kernel's samples; a host has few of them
            vgpus = self._mdevs.read()
            gpus = [self._look_at(gpu, vgpus) for gpu in self._host.gpus]
        except (files.Unreadable, _Unsure):
            return None
        if _are_same(gpus, self._host.gpus):
            return self._host
        vfs = {vf.address for gpu in gpus for vf in gpu.vfs}
        if any(gpu.address in vfs for gpu in gpus):
            return None  # a VF being created was taken for a GPU
        self._host = dataclasses.replace(self._host, gpus=tuple(gpus))
        return self._host

    def _look_at(
        self, gpu: values.PhysicalGPU, vgpus: mdev.VGPUs
    ) -> values.PhysicalGPU:
        known = self._known.get(gpu.name)
        if known is not None:
            with contextlib.suppress(files.Unreadable, _Unsure):
                return self._refresh(known, vgpus)
        return self._read_gpu_anew(gpu)

    def _read_gpu_anew(self, gpu: values.PhysicalGPU) -> values.PhysicalGPU:
        """One GPU with everything about it.

        :raises _Unsure: if it has a fault, which other GPUs may have
            caused.
        """
        scan = sysfs.Scan(self.tree, self._is_wanted)
        self._known.pop(gpu.name, None)
        if gpu.address is None:
            raise _Unsure
        if not self._addresses:
            self._addresses = {
                values.PciAddress.parse(name): name for name in self._on_bus
            }
        found = scan.read_function(
            gpu.address, str(gpu.address), self._addresses
        )
        if found is None or scan.faults:
            raise _Unsure
        if found == gpu:
            found = gpu
        self._learn(found, scan.sources.get(gpu.name))
        return found

    # -- one GPU ------------------------------------------------------------

    def _refresh(self, known: _Known, vgpus: mdev.VGPUs) -> values.PhysicalGPU:
        """A known GPU as it is now; the same object if nothing has changed."""
        gpu = known.gpu
        driver = self.tree.find_link_name(*known.where, 'driver')
        if driver != gpu.driver:
            raise _Unsure
        if known.types is not None:
            directory, marks = known.types
            if self.tree.list_marked(*directory) != marks:
                raise _Unsure
        # VFs are on the bus before their GPU says so.
        if gpu.sriov is not None and sysfs.count_vfs(
            self.tree, known.where
        ) != len(gpu.vfs):
            raise _Unsure
        if gpu.vfs and mdev.has_types(self.tree, known.where):
            raise _Unsure  # then they were late, and those of the VFs go
        own = vgpus.get(known.place, ())
        offers = gpu.offers
        if offers:
            offers = self._ask(known.place, known.asked, offers)
        vfs = [
            self._refresh_vf(vf, place, known.asked, on_it)
            # A VF with the same vGPU as before takes no other: unchanged.
            if not (on_it := vgpus.get(place, ())) or on_it != vf.vgpus
            else vf
            for vf, place in zip(gpu.vfs, known.places, strict=True)
        ]
        if (
            own == gpu.vgpus
            and offers is gpu.offers
            and _are_same(vfs, gpu.vfs)
        ):
            return gpu
        fresh = dataclasses.replace(
            gpu, vfs=tuple(vfs), offers=offers, vgpus=own
        )
        self._known[gpu.name] = dataclasses.replace(known, gpu=fresh)
        return fresh

    def _refresh_vf(
        self,
        vf: values.VirtualFunction,
        place: str,
        asked: tuple[values.VGPUType, ...],
        on_it: tuple[values.VGPU, ...],
    ) -> values.VirtualFunction:
        if vf.vendor_vfio:
            backend = nvidia.NvidiaTypes(self.tree, self._faults)
            offers, on_it = backend.read(
                type_backends.Function(vf.name, (*files.PCI, place))
            )
            if self._faults:
                self._faults.clear()
                raise _Unsure
            if offers == vf.offers:
                offers = vf.offers
        elif on_it:
            offers = tuple(values.Offer(t, 0) for t in asked)
        else:
            offers = self._ask(place, asked, vf.offers)
        if offers is vf.offers and on_it == vf.vgpus:
            return vf
        return dataclasses.replace(vf, offers=offers, vgpus=on_it)

    def _ask(
        self,
        place: str,
        types: tuple[values.VGPUType, ...],
        before: tuple[values.Offer, ...],
    ) -> tuple[values.Offer, ...]:
        """The free capacity of a function."""
        where = (*files.PCI, place)
        answers = [mdev.read_available(self.tree, where, t.id) for t in types]
        if answers == [offer.available for offer in before]:
            return before
        return tuple(map(values.Offer, types, answers))


def _are_same(now: Iterable[object], before: Iterable[object]) -> bool:
    """Whether these are the very same objects."""
    return all(map(operator.is_, now, before))


def _is_complete(gpu: values.PhysicalGPU, source: mdev.Source | None) -> bool:
    """Whether every function shows all of its types.

    Types appear after the functions, and not all at once.
    """
    if gpu.vfs and all(vf.vendor_vfio for vf in gpu.vfs):
        return not gpu.offers
    if gpu.vfs and gpu.offers:
        return False  # types on both match neither framework
    if source is None or source[1].keys() != {t.id for t in gpu.types}:
        return False
    asked = [[offer.type.id for offer in vf.offers] for vf in gpu.vfs]
    return all(ids == asked[0] for ids in asked)


def _list_asked(gpu: values.PhysicalGPU) -> tuple[values.VGPUType, ...]:
    offers = gpu.offers or (gpu.vfs[0].offers if gpu.vfs else ())
    return tuple(offer.type for offer in offers)
