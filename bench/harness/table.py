"""Tables of medians with ratios to heap, as Markdown that reads well in a terminal, too."""
from . import summary

CPU = ('cpu_us', 'cpu_ms', 'cpu_ns')
HEADS = {'cpu_us': 'CPU µs', 'cpu_ms': 'CPU ms', 'cpu_ns': 'CPU ns'}


def markdown(lines):
    """Rows of cells, the first one the head; numbers to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]

    def cells(line):
        return '| ' + ' | '.join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths))) + ' |'

    rule = '|' + '|'.join('-' * (width + 2) if i == 0 else '-' * (width + 1) + ':'
                          for i, width in enumerate(widths)) + '|'
    return '\n'.join([cells(lines[0]), rule, *map(cells, lines[1:])])


def sides_of(groups):
    return list(dict.fromkeys(side for sides in groups.values() for side in sides))


def cpu_of(groups):
    """The figure of CPU that the rows have, if any."""
    rows = [row for sides in groups.values() for rows in sides.values() for row in rows]
    return next((name for name in CPU if any(row.get(name) not in (None, '') for row in rows)),
                None)


def ratio_text(value):
    return '' if value is None else f'{value:.2f}'


def case_cells(sides, names, cpu, baseline):
    cells = []
    for name in names:
        rows = sides.get(name)
        cells.append(summary.rounded(rows and summary.figure(rows, rows[0]['measure'])))
        if cpu:
            cells.append(summary.rounded(rows and summary.figure(rows, cpu)))
        if baseline and name != summary.BASELINE:
            cells.append(ratio_text(summary.case_ratio(sides, name)))
    return cells


def head_cells(names, cpu, baseline):
    cells = []
    for name in names:
        cells.append(name)
        if cpu:
            cells.append(HEADS[cpu])
        if baseline and name != summary.BASELINE:
            cells.append('ratio')
    return cells


def of_cases(groups, with_workload=False):
    """One line for each case: the figure that counts on each side, its CPU, the ratio to heap."""
    names = sides_of(groups)
    cpu = cpu_of(groups)
    baseline = summary.BASELINE in names
    lines = [['workload'] * with_workload + ['case', 'unit'] + head_cells(names, cpu, baseline)]
    for (workload, case), sides in groups.items():
        first = next(iter(sides.values()))[0]
        lines.append([workload] * with_workload + [case, first['unit']] +
                     case_cells(sides, names, cpu, baseline))
    return markdown(lines)


def conclusion(groups):
    """For cases of one kind: the mean of the ratios, and which are behind heap."""
    lines = []
    if len({rows[0]['measure'] for sides in groups.values() for rows in sides.values()}) > 1:
        return ''
    for side in sides_of(groups):
        ratios = {
            case: summary.case_ratio(sides, side)
            for (_, case), sides in groups.items() if side != summary.BASELINE
        }
        ratios = {case: value for case, value in ratios.items() if value}
        if len(ratios) < 2:
            continue
        worst = min(ratios, key=ratios.get)
        behind = sum(value < 0.95 for value in ratios.values())
        lines.append(f'{side}: geometric mean of {len(ratios)} ratios '
                     f'{summary.geometric_mean(ratios.values()):.2f}, {behind} below 0.95, '
                     f'worst {ratios[worst]:.2f} ({worst})')
    return '\n'.join(lines)


def text(rows):
    """What bench/run prints at its end."""
    groups = summary.group(rows)
    if not groups:
        return 'nothing was measured'
    return '\n\n'.join(part for part in (of_cases(groups), conclusion(groups)) if part)
