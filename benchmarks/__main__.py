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

"""Measure this project beside Nova's own driver.

Prints a table, and writes it, everything else that was measured
(measurements.json) and plots to a directory. Nothing passes or fails by its
time.
"""

import argparse
import importlib
import pathlib
import tempfile

from benchmarks import drivers
from benchmarks import report

#: In the order in which they are run.
BENCHMARKS = (
    'inventory',
    'allocation',
    'weighing',
    'command_line',
    'cloud',
    'fleet',
)


def main() -> None:
    options = _parse()
    options.output.mkdir(parents=True, exist_ok=True)
    found: list[report.Measurement] = []
    with tempfile.TemporaryDirectory() as name:
        drivers.configure(pathlib.Path(name))
        for benchmark in BENCHMARKS:
            if benchmark in (options.what or BENCHMARKS):
                module = importlib.import_module(f'benchmarks.{benchmark}')
                found += module.run(options.output, options.quick)
                # What took long is kept, whatever comes after it.
                report.write_json(found, options.output / 'measurements.json')
    table = report.make_table(found)
    (options.output / 'table.out').write_text(f'{table}\n')
    print(table)
    print(f'\nAll of it, and plots: {options.output}')


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog='python -m benchmarks', description=__doc__
    )
    parser.add_argument(
        'what',
        nargs='*',
        metavar='WHAT',
        help=f'some of {", ".join(BENCHMARKS)} (default: all)',
    )
    parser.add_argument(
        '--output',
        type=pathlib.Path,
        default=pathlib.Path('benchmarks/build'),
        help='where to write to (default: %(default)s)',
    )
    parser.add_argument(
        '--quick',
        action='store_true',
        help='small hosts and few rounds, to see whether it works at all',
    )
    options = parser.parse_args()
    for what in options.what:
        if what not in BENCHMARKS:
            parser.error(f'WHAT is {what}, not one of {", ".join(BENCHMARKS)}')
    return options


if __name__ == '__main__':
    main()
