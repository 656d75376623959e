"""The tables of the report, and the picture."""
from .. import summary, table

COUNTED = ('2pc', 'delegated', 'leap rows', 'leap')
RATIOS = (('leap rows', '2pc'), ('leap', 'delegated'), ('leap', '2pc'))
HEADS = {'messages': 'messages', 'forced_writes': 'forced writes'}
MODELS = {'messages': 'model_messages', 'forced_writes': 'model_forced'}


def value(sides, way, figure):
    rows = sides.get(way)
    return summary.figure(rows, figure) if rows else None


def short(number):
    return '' if number is None else f'{number:.2f}'


def throughput(groups):
    ways = table.sides_of(groups)
    ratios = [pair for pair in RATIOS if set(pair) <= set(ways)]
    lines = [['case', *ways, *(f'{one} : {other}' for one, other in ratios)]]
    for (_, case), sides in groups.items():
        tps = {way: value(sides, way, 'tps') for way in ways}
        lines.append([case, *(summary.rounded(tps[way]) for way in ways), *(
            table.ratio_text(summary.ratio(tps[one], tps[other], 'higher'))
            for one, other in ratios)])
    return table.markdown(lines)


def latency(groups):
    """What a transaction takes and uses: milliseconds, messages in sequence, the processor."""
    ways = table.sides_of(groups)
    lines = [['case', *(f'{way}: ms, CPU ms, failed %' for way in ways)]]
    for (_, case), sides in groups.items():
        cells = []
        for way in ways:
            ms, cpu, failed = (value(sides, way, figure)
                               for figure in ('ms', 'cpu_us', 'failed_percent'))
            cells.append('' if ms is None else f'{ms:.2f}, {cpu / 1000:.2f}, {failed:.1f}')
        lines.append([case, *cells])
    return table.markdown(lines)


def counted(groups, figure):
    """Of each way what was counted, and in parentheses what the model says."""
    lines = [['case', *COUNTED]]
    for (_, case), sides in groups.items():
        cells = []
        for way in COUNTED:
            model = short(value(sides, way, MODELS[figure]))
            cells.append(short(value(sides, way, figure)) + (f' ({model})' if model else ''))
        lines.append([case, *cells])
    return table.markdown(lines)


def busy(rows):
    values = [float(row['busy_percent']) for row in rows]
    others = [float(row['others_percent']) for row in rows]
    return (f'The processors were busy for {min(values):.0f} to {max(values):.0f} % of the time '
            f'(median {summary.median(values):.0f}), others took a median of '
            f'{summary.median(others):.0f} %.')


def text(rows):
    groups = summary.group(rows)
    return '\n\n'.join([
        'Transactions per second, and ratios:', throughput(groups), busy(rows),
        'Messages between nodes of a transaction that something waits for, counted (by the model):',
        counted(groups, 'messages'), 'Forced writes of a transaction, counted (by the model):',
        counted(groups, 'forced_writes'), 'A transaction:', latency(groups)
    ])


def percents(case):
    """(chart, remote, locality) of a case's name, or None."""
    parts = [part.strip() for part in case.split(',')]
    if len(parts) != 4 or not parts[2].endswith('% remote'):
        return None
    return ', '.join(parts[:2]), int(parts[2].split()[0]), int(parts[3].split()[0])


def picture(plt, rows, colors):
    """A chart for each workload, number of nodes and remote share: throughput by locality."""
    charts = {}
    for (_, case), sides in summary.group(rows).items():
        found = percents(case)
        for way, part in sides.items() if found else ():
            title = f'{found[0]}, {found[1]} % remote'
            charts.setdefault(title, {}).setdefault(way, []).append(
                (found[2], summary.figure(part, 'tps')))
    ways = table.sides_of(summary.group(rows))
    height = -(-len(charts) // 3)
    figure, grid = plt.subplots(height, 3, figsize=(11, 2.8 * height), squeeze=False)
    for axes in grid.flat[len(charts):]:
        axes.set_axis_off()
    for axes, (title, lines) in zip(grid.flat, charts.items()):
        for way, points in lines.items():
            at, values = zip(*sorted(points))
            axes.plot(range(len(at)), values, 'o-', label=way, markersize=3,
                      color=colors[ways.index(way) % len(colors)])
            axes.set_xticks(range(len(at)), [f'{percent} %' for percent in at])
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel('locality', fontsize=7)
        axes.set_ylabel('transactions/s', fontsize=7)
    return figure, grid
