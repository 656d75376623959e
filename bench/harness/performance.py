"""docs/performance.md, made of results: the main workloads first, then all that was measured."""
from . import results, summary, table

QUIET_PERCENT = 10  # of the machine that others may take
IMAGES = 'images'
HEAD = """\
# Performance

Medians of rounds in which the sides take turns, each with a server of its own; a ratio above 1 is
better than heap. CPU is that of all the server's processes, for each transaction or statement: on
a machine that is not quiet it says more than the other figures. `leanstore` is without the module
leanstore_accel. Below each table stand the machine, the conditions and the settings.

Made by `bench/report` of the newest run of each case in [bench/results](../bench/results). To make
it anew on a machine of your own, in about an hour: `bench/everything`; or `bench/run WORKLOAD...`,
as below or with more rounds, then `bench/report`. [bench/README.md](../bench/README.md) says how it
is measured.
"""
NOT_QUIET = """
**The machine was not quiet**: others took up to {} % of it. Ratios by the clock depend on
what others did in the turn of which side; compare the CPU.
"""
NOTHING = '\nNothing has been measured on a quiet machine yet.\n'


def largest(rows, figure):
    return max((float(row[figure]) for row in rows if row.get(figure) not in (None, '')), default=0)


def machine_line(rows):
    row = rows[0]
    others = largest(rows, 'others_percent')
    loads = [float(row['load']) for row in rows]
    text = (f"{row['cpu']}, {row['cpus']} processors, {row['memory']}, Linux {row['kernel']}; "
            f"commit {row['commit']}, {row['run'][:10]}; load average {min(loads):.1f} to "
            f"{max(loads):.1f}.")
    if others > QUIET_PERCENT:
        text += f' The machine was not quiet: others took up to {others:.0f} % of it.'
    return text


def not_quiet(rows):
    others = largest(rows, 'others_percent')
    return NOT_QUIET.format(round(others)) if others > QUIET_PERCENT else ''


def by_workload(rows):
    groups = {}
    for row in rows:
        groups.setdefault(row['workload'], []).append(row)
    return groups


def is_main(row, workloads):
    """Whether the row's case stands on the first page."""
    known = workloads.get(row['workload'])
    return known is not None and any(case['name'] == row['case'] and case.get('main')
                                     for case in known.cases)


def main_rows(rows, workloads):
    return [row for row in rows if is_main(row, workloads)]


def main_bars(rows, workloads):
    """[(name, {side: ratio to heap})] of the main cases, and of workloads that count as a whole."""
    bars = []
    for (name, case), sides in summary.group(main_rows(rows, workloads)).items():
        bars.append((f'{name}: {case}', ratios_of(sides)))
    for name, part in by_workload(rows).items():
        if name in workloads and workloads[name].main_mean:
            bars.append((f'{name}: mean of {len(summary.group(part))}', mean_ratios(part)))
    return [(name, ratios) for name, ratios in bars if ratios]


def ratios_of(sides):
    ratios = {side: summary.case_ratio(sides, side) for side in sides if side != summary.BASELINE}
    return {side: value for side, value in ratios.items() if value}


def main_ranges(rows, workloads):
    """{(name, side): (least, greatest)} ratio of a round, of the main cases."""
    ranges = {}
    for (name, case), sides in summary.group(main_rows(rows, workloads)).items():
        for side in sides:
            found = summary.ratio_range(sides, side)
            if found and side != summary.BASELINE:
                ranges[f'{name}: {case}', side] = found
    return ranges


def mean_ratios(rows):
    collected = {}
    for sides in summary.group(rows).values():
        for side, value in ratios_of(sides).items():
            collected.setdefault(side, []).append(value)
    return {side: summary.geometric_mean(values) for side, values in collected.items()}


def mean_lines(rows, workloads):
    return [
        f'- `{name}`, ' + table.conclusion(summary.group(part)).replace('\n', '; ')
        for name, part in by_workload(rows).items()
        if name in workloads and workloads[name].main_mean
    ]


def is_series(rows):
    """Whether it is a matter of threads: lines in a picture of its own."""
    return all(row.get('threads') for row in rows)


def settings_lines(rows):
    """What each side was set to; only once where all are the same."""
    settings = {}
    for row in rows:
        settings.setdefault(row['settings'], []).append(row['side'])
    for text, sides in settings.items():
        if text:
            yield f"- {', '.join(dict.fromkeys(sides))}: {text}"


def report_of(known):
    """What writes a workload's table: its driver, if it has something of its own."""
    return getattr(known.driver, 'report', table.text) if known else table.text


def picture_of(known):
    """What draws a picture of its own for a workload's driver, if there is one."""
    return getattr(known.driver, 'picture', None) if known else None


def section(name, rows, workloads):
    known = workloads.get(name)
    lines = [f"## {known.title if known else name}", '']
    if known and known.note:
        lines += [known.note, '']
    for run, part in runs(rows).items():
        rounds = max(int(row['round']) for row in part)
        lines += [
            f"`bench/run {name}`, {part[0]['parameters']}; {count(rounds, 'round')}. "
            f"{machine_line(part)}", '',
            report_of(known)(part), ''
        ]
        if is_series(part) or picture_of(known):
            lines += [f'![{name}]({IMAGES}/{name}.svg)', '']
        settings = list(settings_lines(part))
        if settings:
            lines += ['Settings:', '', *settings, '']
    return '\n'.join(lines)


def count(number, noun):
    return f'{number} {noun}' + ('s' if number != 1 else '')


def runs(rows):
    result = {}
    for row in rows:
        result.setdefault(row['run'], []).append(row)
    return result


def document(all_rows, workloads):
    """The text.  workloads: {name: Workload}, of those that there still are."""
    rows = results.newest(all_rows)
    if not rows:
        return HEAD + NOTHING
    parts = [HEAD + not_quiet(rows)]
    chosen = main_rows(rows, workloads)
    if chosen:
        parts += [
            table.of_cases(summary.group(chosen), with_workload=True) + '\n',
            ''.join(line + '\n' for line in mean_lines(rows, workloads)),
            f'![ratio to heap]({IMAGES}/performance.svg)\n'
        ]
    parts += [section(name, part, workloads) for name, part in by_workload(rows).items()]
    return '\n'.join(part for part in parts if part)
