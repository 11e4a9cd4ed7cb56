#!/usr/bin/env python3
"""The table in docs/verification_fitting.md of a device's error beside what I0 predicts of it.

Usage: device_error_table.py LOG.txt    what test_scenarios --gtest_filter='Models/OnDevice*' printed
Writes the table between the markers of docs/verification_fitting.md.
"""
import pathlib
import re
import sys

BEGIN, END = '<!-- begin: tools/device_error_table.py -->', '<!-- end: tools/device_error_table.py -->'
MODES = ('tf32', 'fp16', 'bf16')


def main():
    rows = {}
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        found = re.match(r'(\S+) +(\w+) +(\S+) +rms (\S+) noise (\S+)$', line)
        if found and found[2] in MODES:
            rms, noise = float(found[4]), float(found[5])
            rows.setdefault((found[1], found[3]), {})[found[2]] = (rms, rms / noise)
    lines = ['| model | output | ' + ' | '.join(f'{m} rms | / predicted' for m in MODES) + ' |',
             '|---|---|' + '---|---|' * len(MODES)]
    ratios = []
    for (model, output), cells in sorted(rows.items()):
        text = ''
        for mode in MODES:
            if mode in cells:
                rms, ratio = cells[mode]
                ratios.append(ratio)
                text += f' {rms:.2e} | {ratio:.2f} |'
            else:
                text += ' – | – |'
        lines.append(f'| {model} | {output} |{text}')
    path = pathlib.Path(__file__).parent.parent / 'docs/verification_fitting.md'
    text = path.read_text()
    table = '\n'.join(lines)
    text = re.sub(re.escape(BEGIN) + '.*' + re.escape(END), lambda _: f'{BEGIN}\n{table}\n{END}', text, flags=re.S)
    path.write_text(text)
    print(f'{len(ratios)} outputs, ratio {min(ratios):.2f} to {max(ratios):.2f}')


if __name__ == '__main__':
    main()
