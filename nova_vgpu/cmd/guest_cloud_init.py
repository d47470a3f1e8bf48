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

"""``nova-vgpu guest cloud-init``: user data that sets up a guest's GPU."""

import argparse
import os
import stat
import typing

from nova_vgpu import exception
from nova_vgpu.cmd import base
from nova_vgpu.cmd import guest_arguments
from nova_vgpu.cmd import option_files
from nova_vgpu.guest import cloud_config
from nova_vgpu.guest import facts_file
from nova_vgpu.guest import merging
from nova_vgpu.guest import option_names
from nova_vgpu.guest import setup
from nova_vgpu.host import files
from nova_vgpu.host import state

_OUTPUT = guest_arguments.OUTPUT


class CloudInit(base.Command):
    """Print user data that sets up the GPU of a guest.

    The guest installs the driver, with DKMS so that it survives updates of
    the kernel, gets the configuration of its licence, and makes NVIDIA's
    container runtime the default of docker or containerd if that is asked
    for. The guest is a Debian or Ubuntu. What is there already is not
    changed: the program in the guest, nova-vgpu-guest-setup, may be run again.

    A vGPU on a host with the driver 550.144.02:

      nova-vgpu guest cloud-init --driver vgpu-guest \\
        --host-driver 550.144.02 --vgpu-type T4-2Q \\
        --driver-source https://HOST/NVIDIA-Linux-x86_64-550.144.03-grid.run \\
        --driver-sha256 SHA256 --licence-token FILE --output user-data

    A whole GPU in a node of Kubernetes, with packages:

      nova-vgpu guest cloud-init --driver datacenter --gpu-cluster \\
        --device-plugin nvcr.io/nvidia/k8s-device-plugin:TAG \\
        --driver-source nvidia-driver --repository 'URI SUITE COMPONENT' \\
        --repository-key FILE

    With --facts FILE the kind of driver, the vGPU type and the version of the
    host's driver are those of a guest, as "guest facts -f json" printed them
    there. Defaults are in the section [guest] of the configuration; those of a
    flavor or project are in [guest_flavor_NAME] and [guest_project_ID]. All
    that is missing is named at once.

    User data with a token is secret: it is written to a file of mode 0600
    (--output) or to a pipe, but not to a terminal.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        guest_arguments.add_arguments(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        _require_target(parsed_args.output)
        request, problems = self._make_request(parsed_args)
        if problems:
            raise exception.UsageError('\n'.join(problems))
        wanted = setup.decide(request)
        text = cloud_config.render(wanted)
        _require_length(text)
        self._write(text, wanted.has_secrets, parsed_args)
        return 0

    def _make_request(
        self, parsed_args: argparse.Namespace
    ) -> tuple[setup.Request, tuple[str, ...]]:
        """Options count first, then the facts, then the configuration."""
        said: dict[str, typing.Any] = {}
        problems: tuple[str, ...] = ()
        if parsed_args.facts is not None:
            text, problems = option_files.read('--facts', parsed_args.facts)
            if text:
                said, problems = facts_file.parse(
                    text.decode(errors='replace')
                )
        sections, invalid = self._read_configuration(parsed_args)
        problems += invalid
        # Not missing as well, if what would say it cannot be used.
        unknown = {'driver': setup.NO_DRIVER} if problems else {}
        places = [vars(parsed_args), said, *sections.values(), unknown]
        request, wrong = merging.make_request(places, option_files.read)
        named = option_names.name_sections(
            wrong, places, ['', '', *sections, '']
        )
        return request, problems + named

    def _read_configuration(
        self, parsed_args: argparse.Namespace
    ) -> tuple[dict[str, dict[str, typing.Any]], tuple[str, ...]]:
        # Not at the top: importing oslo.config is slow.
        from nova_vgpu.cmd import guest_sections
        from nova_vgpu.conf import guest
        from nova_vgpu.conf import sources

        asked = parsed_args.flavor, parsed_args.project
        groups = guest.list_groups(*asked)
        conf, written = sources.load(
            self.options.config_file,
            self.options.config_dir,
            guest.make_registrar(groups),
        )
        for slip in guest_sections.find_slips(written, *asked):
            self.say(f'warning: {slip}')
        return guest.read(conf, groups)

    def _write(
        self, text: str, is_secret: bool, parsed_args: argparse.Namespace
    ) -> None:
        if parsed_args.output is not None:
            directory, name = os.path.split(parsed_args.output)
            _open_directory(directory).replace_private(name, text)
            return
        if is_secret and self.app.stdout.isatty() and not parsed_args.show:
            raise exception.UsageError(
                'The user data is secret: it has the token, or a signed URL. '
                f'Write it to a file of mode 0600 with {_OUTPUT} FILE, or '
                'give --show-secrets to print it to the terminal.'
            )
        if is_secret and _is_file_of_all(self.app.stdout):
            self.say(
                'warning: The user data is secret, and other users can read '
                f'the file that it goes to. Use {_OUTPUT} FILE, or umask 077.'
            )
        print(text, end='', file=self.app.stdout)


def _is_file_of_all(stream: typing.TextIO) -> bool:
    """Whether others than its owner may read the file behind a stream."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):  # not a file of the system
        return False
    return stat.S_ISREG(mode) and bool(mode & 0o077)


def _require_length(text: str) -> None:
    length = cloud_config.count_characters(text)
    if length > cloud_config.MOST_CHARACTERS:
        raise exception.UsageError(
            f'The user data has {length} characters in Base64. Nova takes '
            f'{cloud_config.MOST_CHARACTERS}: the key of the repository or '
            'the token is too long.'
        )


def _require_target(path: str | None) -> None:
    """Refuse a file that is not user data, before anything is done."""
    if path is None:
        return
    directory, name = os.path.split(path)
    if not name:
        raise exception.UsageError(
            f'{_OUTPUT} {path}: the name of a file is missing.'
        )
    if not files.is_directory(directory or '.'):
        raise exception.UsageError(
            f'{_OUTPUT} {path}: the directory does not exist.'
        )
    present = _open_directory(directory).read(name)
    if present is not None and not present.startswith(
        cloud_config.HEADER.strip()
    ):
        raise exception.UsageError(
            f'{_OUTPUT} {path}: the file exists and is not user data. Give '
            'another name, or delete the file.'
        )


def _open_directory(directory: str) -> state.StateDirectory:
    return state.StateDirectory(directory or '.', _OUTPUT)
