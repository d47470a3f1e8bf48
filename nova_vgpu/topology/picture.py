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

"""The topology of a host as a picture, in SVG.

It is a tree from left to right: NUMA nodes, host bridges, bridges, devices.
Each device is a row. A box is drawn once for all devices that are behind it,
in the middle of their rows.
"""

from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import html

from nova_vgpu import values
from nova_vgpu.topology import matrix

_WIDTH, _HEIGHT = 156, 54
_GAP_X, _GAP_Y = 30, 12
_COLUMN, _ROW = _WIDTH + _GAP_X, _HEIGHT + _GAP_Y
_MARGIN = 8
_LINE = 15
#: As many characters as fit into a box.
_CHARACTERS = 22
# Within a page, the style of a picture applies to all of the page.
_STYLE = """
  .pcie rect { fill: #fff; stroke: #7a7a7a; }
  .pcie .gpu rect { fill: #e3f3e3; stroke: #2f6b2f; }
  .pcie .nic rect { fill: #eef4fb; stroke: #2a4e68; }
  .pcie .redirects rect { fill: #fdeedd; stroke: #a85b00; }
  .pcie text { font: 12px sans-serif; fill: #1c2b36; text-anchor: middle; }
  .pcie .name { font-weight: bold; }
  .pcie path { fill: none; stroke: #7a7a7a; stroke-width: 1.4; }
"""

#: The names of a box and of all boxes to its left, which identify it.
Key = tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Box:
    """A box: its class in the style sheet, and its lines."""

    kind: str
    lines: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Placed:
    """A box in its place."""

    box: _Box
    x: float
    y: float
    parent: Key


def draw(topology: values.Topology, title: str) -> str:
    """The picture of a topology."""
    rows = [_list_boxes(topology, device) for device in _sort(topology)]
    depth = max(map(len, rows), default=0)
    placed = _place(rows, depth)
    width = depth * _COLUMN - _GAP_X + 2 * _MARGIN
    height = len(rows) * _ROW - _GAP_Y + 2 * _MARGIN
    return '\n'.join(
        (
            '<svg xmlns="http://www.w3.org/2000/svg" class="pcie" role="img" '
            f'width="{width}" height="{height}" '
            f'viewBox="{-_MARGIN} {-_MARGIN} {width} {height}" '
            'style="max-width: 100%; height: auto">',
            f'<title>{html.escape(title)}</title>',
            f'<style>{_STYLE}</style>',
            *_draw_lines(placed),
            *map(_draw_box, placed.values()),
            '</svg>',
        )
    )


def _sort(topology: values.Topology) -> list[values.PcieDevice]:
    """The devices so that those behind a bridge are next to each other."""
    return sorted(
        topology.devices,
        key=lambda device: (
            -1 if device.numa_node is None else device.numa_node,
            device.host_bridge,
            [bridge.address for bridge in device.bridges] + [device.address],
        ),
    )


def _list_boxes(
    topology: values.Topology, device: values.PcieDevice
) -> list[_Box]:
    """The boxes of a row, from left to right."""
    node = 'unknown' if device.numa_node is None else str(device.numa_node)
    return [
        _Box('node', (f'NUMA node {node}',)),
        _Box('host', ('host bridge', device.host_bridge)),
        *map(_box_bridge, device.bridges),
        _box_device(topology, device),
    ]


def _box_bridge(bridge: values.Bridge) -> _Box:
    what = bridge.port.value if bridge.port else 'bridge'
    if bridge.redirects:
        return _Box('redirects', (what, str(bridge.address), 'ACS redirects'))
    return _Box('bridge', (what, str(bridge.address)))


def _box_device(topology: values.Topology, device: values.PcieDevice) -> _Box:
    labels = matrix.label_devices(topology)
    label = labels[device.address]
    lines = [f'{label} {device.name}', str(device.address)]
    links = topology.nvlinks.of(device.address)
    if links and links.to_switches:
        lines.append(f'{links.to_switches} NVLinks to NVSwitch')
    elif links and links.to_gpus:
        ends = ', '.join(labels.get(gpu, '?') for gpu, _ in links.to_gpus)
        lines.append(f'NVLinks to {ends}')
    return _Box(device.kind.value.lower(), tuple(lines))


def _place(rows: list[list[_Box]], depth: int) -> dict[Key, _Placed]:
    """Every box in the middle of its rows; devices in the last column."""
    at: dict[Key, list[int]] = {}
    boxes: dict[Key, _Box] = {}
    for number, row in enumerate(rows):
        for column, box in enumerate(row):
            key = tuple(' '.join(b.lines) for b in row[: column + 1])
            at.setdefault(key, []).append(number)
            boxes[key] = box
    return {
        key: _Placed(
            box,
            (depth if box.kind in ('gpu', 'nic') else len(key)) * _COLUMN
            - _COLUMN,
            (at[key][0] + at[key][-1]) / 2 * _ROW,
            key[:-1],
        )
        for key, box in boxes.items()
    }


def _draw_lines(placed: dict[Key, _Placed]) -> Iterator[str]:
    for item in placed.values():
        if not item.parent:
            continue
        left = placed[item.parent]
        start, end = left.x + _WIDTH, item.x
        turn = start + _GAP_X / 2
        y, to_y = (each.y + _HEIGHT / 2 for each in (left, item))
        yield f'<path d="M{start:g} {y:g} H{turn:g} V{to_y:g} H{end:g}"/>'


def _draw_box(placed: _Placed) -> str:
    lines = placed.box.lines
    y = placed.y + _HEIGHT / 2 + 4 - (len(lines) - 1) * _LINE / 2
    return (
        f'<g class="{placed.box.kind}"><rect x="{placed.x:g}" '
        f'y="{placed.y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
        f'{"".join(_draw_texts(lines, placed.x + _WIDTH / 2, y))}</g>'
    )


def _draw_texts(lines: Iterable[str], x: float, y: float) -> Iterator[str]:
    for number, line in enumerate(lines):
        kind = ' class="name"' if number == 0 else ''
        text = line
        if len(text) > _CHARACTERS:
            text = text[: _CHARACTERS - 1] + '…'
        yield (
            f'<text{kind} x="{x:g}" y="{y + number * _LINE:g}">'
            f'{html.escape(text.strip())}</text>'
        )
