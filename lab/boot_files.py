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

"""The kernel and the initial RAM disk of the guest.

The kernel is unpacked from Debian's image, because an emulated machine takes
long for that. The RAM disk holds a static busybox, the modules that the disks
of the guest need and a script that lays them over each other:

===========  ==========================================================
what         from where
===========  ==========================================================
lowest       the disk that the lab has built, read only
over it      a directory of this machine: the project as it is installed
on top       a disk of this run: all that the guest writes, over reboots
===========  ==========================================================
"""

import gzip
import lzma
import pathlib
import stat
import subprocess

from lab import cache

_ELF = b'\x7fELF'
_XZ = b'\xfd7zXZ\x00'
_ZSTD = b'\x28\xb5\x2f\xfd'

_MODULES = (
    *('virtio_pci', 'virtio_blk', 'ext4', 'overlay', '9p', '9pnet_virtio'),
)

_INIT = """\
#!/bin/busybox sh
b=/bin/busybox
fail() { echo "lab: $*"; exec $b poweroff -f; }
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
for module in $($b cat /modules/order); do
    $b insmod /modules/$module || fail "no $module"
done
case " $($b cat /proc/cmdline) " in
    *" lab.probe "*) fail 'this accelerator boots a kernel' ;;
esac
$b mount -t ext4 -o ro /dev/vda /base || fail 'no base'
$b mount -t 9p -o ro,trans=virtio,version=9p2000.L,msize=262144,cache=loose \
    project /project || fail 'no project'
$b mount -t ext4 /dev/vdb /state || fail 'no state'
$b mkdir -p /state/upper /state/work
layers=lowerdir=/project:/base,upperdir=/state/upper,workdir=/state/work
$b mount -t overlay -o $layers overlay /root || fail 'no overlay'
for each in dev proc sys; do
    $b mount --move /$each /root/$each
done
exec $b switch_root /root /lib/systemd/systemd
"""


def unpack_kernel(its: cache.Cache) -> None:
    """Find the kernel proper in the image that loads itself.

    :raises BuildFailed: if it is packed in a way that is not known.
    """
    version = its.kernel_version
    image = (its.rootfs / 'boot' / f'vmlinuz-{version}').read_bytes()
    for magic, unpack in ((_ZSTD, _unpack_zstd), (_XZ, _unpack_xz)):
        position = image.find(magic)
        while position >= 0:
            kernel = unpack(its, image[position:])
            if kernel.startswith(_ELF):
                its.kernel.write_bytes(kernel)
                return
            position = image.find(magic, position + 1)
    raise cache.BuildFailed(f'No kernel was found in vmlinuz-{version}.')


def _unpack_zstd(its: cache.Cache, packed: bytes) -> bytes:
    # It complains about what follows the kernel; Python has no zstd.
    done = subprocess.run(
        [*its.program('usr/bin/zstd'), '-dcq'],
        input=packed,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    return done.stdout


def _unpack_xz(its: cache.Cache, packed: bytes) -> bytes:
    try:
        return lzma.LZMADecompressor().decompress(packed)
    except lzma.LZMAError:
        return b''


def make_initrd(its: cache.Cache) -> None:
    entries: list[tuple[str, int, bytes]] = [
        (name, stat.S_IFDIR | 0o755, b'')
        for name in (
            *('bin', 'dev', 'proc', 'sys', 'modules'),
            *('base', 'project', 'state', 'root'),
        )
    ]
    busybox = (its.rootfs / 'bin/busybox').read_bytes()
    entries.append(('bin/busybox', stat.S_IFREG | 0o755, busybox))
    entries.append(('init', stat.S_IFREG | 0o755, _INIT.encode()))
    order = []
    for path in _list_modules(its):
        packed = path.read_bytes()
        data = lzma.decompress(packed) if path.suffix == '.xz' else packed
        name = path.name.removesuffix('.xz')
        order.append(name)
        entries.append((f'modules/{name}', stat.S_IFREG | 0o644, data))
    listed = '\n'.join(order).encode()
    entries.append(('modules/order', stat.S_IFREG | 0o644, listed))
    with gzip.open(its.initrd, 'wb', compresslevel=1) as archive:
        for number, entry in enumerate(entries, 1):
            archive.write(_cpio(number, *entry))
        archive.write(_cpio(0, 'TRAILER!!!', 0, b''))


def _list_modules(its: cache.Cache) -> list[pathlib.Path]:
    """The modules and those that they need, in the order to load them."""
    version = its.kernel_version
    found: dict[pathlib.Path, None] = {}
    for name in _MODULES:
        argv = ['modprobe', '-S', version, '--show-depends', name]
        listed = its.run('modules', its.in_rootfs(*argv))
        for line in listed.decode().splitlines():
            kind, path, *_ = line.split()
            if kind == 'insmod':
                found[its.rootfs / path.removeprefix('/')] = None
    return list(found)


def _cpio(number: int, name: str, mode: int, data: bytes) -> bytes:
    """One entry of an archive as the kernel takes it ("newc")."""
    encoded = name.encode() + b'\0'
    # inode, mode, uid, gid, links, mtime, size, device (4), name, checksum
    numbers = (
        number,
        mode,
        0,
        0,
        1,
        0,
        len(data),
        0,
        0,
        0,
        0,
        len(encoded),
        0,
    )
    header = b'070701' + b''.join(b'%08X' % each for each in numbers) + encoded
    return _padded(header) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b'\0' * (-len(data) % 4)
