"""The pictures of docs/performance.md, by matplotlib."""
from . import performance, results, summary
from .errors import Missing

# The first is leanstore's own; then what it is compared with.
COLORS = ['#1b6ca8', '#c8553d', '#588157', '#8d6a9f', '#d4a017', '#3a3a3a', '#6fa8a8', '#a05a2c']
COLUMNS = 3
HOW_TO_GET = """matplotlib is not installed; one of
  apt-get install python3-matplotlib
  python3 -m venv build/venv && build/venv/bin/pip install matplotlib
      (and then: build/venv/bin/python bench/report)"""


def pyplot():
    try:
        import matplotlib
    except ImportError:
        raise Missing(HOW_TO_GET) from None
    matplotlib.use('svg')
    # the same figures give the same bytes
    matplotlib.rcParams.update({
        'svg.hashsalt': 'leanstore',
        'svg.fonttype': 'none',
        'font.size': 9,
        'axes.spines.top': False,
        'axes.spines.right': False
    })
    from matplotlib import pyplot as plt
    return plt


def save(figure, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format='svg', bbox_inches='tight', metadata={'Date': None})
    print(path)


def ratios(plt, bars, ranges, path):
    """A bar for each case and side, and from which round to which its ratio was; 1 is heap."""
    sides = list(dict.fromkeys(side for _, values in bars for side in values))
    height = 0.8 / len(sides)
    figure, axes = plt.subplots(figsize=(8, 0.8 + 0.4 * len(bars)))
    for i, side in enumerate(sides):
        places = [(row + (i - (len(sides) - 1) / 2) * height, values[side],
                   ranges.get((name, side), (values[side], values[side])))
                  for row, (name, values) in enumerate(bars) if side in values]
        errors = [[max(0, value - least) for _, value, (least, _) in places],
                  [max(0, most - value) for _, value, (_, most) in places]]
        drawn = axes.barh([y for y, _, _ in places], [value for _, value, _ in places], height,
                          color=COLORS[i], label=side, xerr=errors,
                          error_kw={'elinewidth': 1, 'capsize': 2})
        axes.bar_label(drawn, fmt='%.2f', padding=2, fontsize=8)
    axes.axvline(1, color='#3a3a3a', linewidth=1)
    axes.set_yticks(range(len(bars)), [name for name, _ in bars])
    axes.invert_yaxis()
    axes.set_xlabel('times heap; above 1 is better')
    axes.legend(frameon=False)
    save(figure, path)
    plt.close(figure)


def series(rows):
    """{name: {side: [(threads, median)]}} of rows with threads."""
    result = {}
    for (_, case), sides in summary.group(rows).items():
        for side, part in sides.items():
            point = int(part[0]['threads']), summary.figure(part, part[0]['measure'])
            result.setdefault(case.rsplit(', ', 1)[0], {}).setdefault(side, []).append(point)
    return result


def lines(plt, rows, path):
    """A small chart for each workload of a program, by threads."""
    charts = series(rows)
    units = {row['case'].rsplit(', ', 1)[0]: row['unit'] for row in rows}
    names = list(dict.fromkeys(side for sides in charts.values() for side in sides))
    height = -(-len(charts) // COLUMNS)
    figure, grid = plt.subplots(height, COLUMNS, figsize=(11, 2.8 * height), squeeze=False)
    for axes in grid.flat[len(charts):]:
        axes.set_axis_off()
    for axes, (title, sides) in zip(grid.flat, charts.items()):
        for side, points in sides.items():
            threads, values = zip(*sorted(points))
            axes.plot(range(len(threads)), values, 'o-', label=side, markersize=3,
                      color=COLORS[names.index(side) % len(COLORS)])
            axes.set_xticks(range(len(threads)), threads)
        axes.set_ylim(bottom=0)
        axes.set_title(title, fontsize=9)
        axes.set_ylabel(units[title], fontsize=7)
    drawn(plt, (figure, grid), path)


def drawn(plt, charts, path):
    """Saves charts under one legend."""
    figure, grid = charts
    figure.legend(*unique_labels(grid), loc='upper center', ncols=4, frameon=False,
                  bbox_to_anchor=(0.5, 0))
    figure.tight_layout()
    save(figure, path)
    plt.close(figure)


def unique_labels(grid):
    found = {}
    for axes in grid.flat:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            found.setdefault(label, handle)
    return list(found.values()), list(found)


def draw(all_rows, workloads, folder):
    rows = results.newest(all_rows)
    if not rows:
        return
    plt = pyplot()
    bars = performance.main_bars(rows, workloads)
    if bars:
        ratios(plt, bars, performance.main_ranges(rows, workloads), folder / 'performance.svg')
    for name, part in performance.by_workload(rows).items():
        own = performance.picture_of(workloads.get(name))
        if own:
            drawn(plt, own(plt, part, COLORS), folder / f'{name}.svg')
        elif performance.is_series(part):
            lines(plt, part, folder / f'{name}.svg')
