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

"""The configuration files and their content.

oslo.config returns the values of registered options. Everything else (a
misspelt option, a second line for the same one) is only in the files, so they
are also read here, one by one, and an error names the file.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import os

from oslo_config import cfg
from oslo_config import iniparser

from nova_vgpu import exception
from nova_vgpu import values
from nova_vgpu.conf import opts

_POST_COPY = ('libvirt', 'live_migration_permit_post_copy')
_MAY_NOT = 'Run as root, or as a user who may read it.'


@dataclasses.dataclass(frozen=True, slots=True)
class ConfigFiles:
    """Configuration files, in the order in which they are read.

    If two of them set an option, the last one counts. ``defaults`` are those
    that are read although no option names them.
    """

    paths: tuple[str, ...]
    defaults: tuple[str, ...]


def list_files(
    config_files: Sequence[str], config_dirs: Sequence[str]
) -> ConfigFiles:
    """The files that oslo.config reads with these options.

    Named files replace the default files only, and named directories the
    default directories. What is named is read last.

    :raises ConfigFileError: if a directory cannot be read.
    """
    defaults: list[str] = []
    if not config_files:
        defaults += cfg.find_config_files('nova', 'nova-compute')
    if not config_dirs:
        for directory in cfg.find_config_dirs('nova', 'nova-compute'):
            defaults += _list_directory(directory)
    named = [*config_files]
    for directory in config_dirs:
        named += _list_directory(directory)
    return ConfigFiles((*defaults, *named), tuple(defaults))


def load(
    config_files: Sequence[str],
    config_dirs: Sequence[str],
    register_opts: Callable[[cfg.ConfigOpts], None] = opts.register_opts,
) -> tuple[cfg.ConfigOpts, tuple[values.Written, ...]]:
    """The configuration, and the content of its files.

    The default files and directories are those of nova-compute.

    :raises ConfigFileError: if one of them cannot be read.
    """
    conf = cfg.ConfigOpts()
    register_opts(conf)
    # Not as two arguments: a path may start with a hyphen.
    arguments = [f'--config-file={path}' for path in config_files]
    arguments += [f'--config-dir={path}' for path in config_dirs]
    paths = list_files(config_files, config_dirs).paths
    written = tuple(entry for path in paths for entry in _read(path))
    try:
        conf(arguments, project='nova', prog='nova-compute')
    except (cfg.Error, OSError) as error:
        raise exception.ConfigFileError(str(error)) from error
    return conf, written


def load_lock_path(
    config_files: Sequence[str], config_dirs: Sequence[str]
) -> str | None:
    """``[oslo_concurrency]lock_path``, as nova-compute would read it.

    :raises ConfigFileError: if a file cannot be read, or if the value refers
        to an option that is not set.
    """
    conf, _ = load(config_files, config_dirs)
    # Nova's default depends on where Nova is installed.
    conf.register_opt(cfg.StrOpt('state_path', default='$pybasedir'))
    conf.register_opt(cfg.StrOpt('lock_path'), group='oslo_concurrency')
    try:
        path: str | None = conf.oslo_concurrency.lock_path
    except (ValueError, cfg.Error, RecursionError) as error:
        raise exception.ConfigFileError(
            f'[oslo_concurrency]lock_path cannot be resolved: {error}. Set '
            'state_path in nova.conf, or write the path in full.'
        ) from error
    return path


def find_post_copy(
    config_files: Sequence[str], config_dirs: Sequence[str]
) -> values.Evidence | None:
    """Where post-copy migration is permitted; None if it is not.

    :raises ConfigFileError: if a file cannot be read.
    """
    conf, written = load(config_files, config_dirs)
    group, name = _POST_COPY
    if not opts.read_novas(conf, cfg.BoolOpt(name, default=False), group):
        return None
    option = f'[{group}]{name}'
    files = [w.file for w in written if (w.section, w.name) == _POST_COPY]
    return values.Evidence(files[-1] if files else option, f'{option} = true')


def _list_directory(path: str) -> list[str]:
    """The files of a directory that oslo.config reads, in its order."""
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise exception.ConfigFileError(
            f'{path} cannot be read: {error.strerror}. {_MAY_NOT}'
            if isinstance(error, PermissionError)
            else f'{path} is not a readable directory: {error.strerror}.'
        ) from error
    return [os.path.join(path, n) for n in names if n.endswith('.conf')]


def _read(path: str) -> Iterator[values.Written]:
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(path, sections).parse()
    except PermissionError as error:
        raise exception.ConfigFileError(
            f'{path} cannot be read: {error.strerror}. {_MAY_NOT}'
        ) from error
    except OSError as error:
        raise exception.ConfigFileError(
            f'{path} cannot be read: {error.strerror}.'
        ) from error
    except UnicodeDecodeError as error:
        raise exception.ConfigFileError(
            f'{path} is not UTF-8 text: {error}.'
        ) from error
    except iniparser.ParseError as error:
        raise exception.ConfigFileError(f'{path}: {error}') from error
    for section, options in sections.items():
        for name, found in options.items():
            yield values.Written(path, section, name, tuple(found))
