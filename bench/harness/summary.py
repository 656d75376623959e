"""Statistics of rounds: medians, ratios against the baseline, and how even a run was."""
import math
import statistics

BASELINE = 'heap'


def median(values):
    return statistics.median(values)


def mean(values):
    return statistics.fmean(values)


def geometric_mean(values):
    return math.exp(statistics.fmean(math.log(value) for value in values))


def ratio(value, baseline, better):
    """Above 1: better than the baseline."""
    if not value or not baseline:
        return None
    return value / baseline if better == 'higher' else baseline / value


def order(sides, round_number):
    """Sides of a round, which begins with another one each time."""
    start = (round_number - 1) % len(sides)
    return sides[start:] + sides[:start]


def evenness(progress, skip=1):
    """Of [(second, rate)]: the median, the worst with its second, and how many are below half."""
    seconds = progress[skip:]
    if not seconds:
        return {}
    middle = median([rate for _, rate in seconds])
    at, worst = min(seconds, key=lambda second: second[1])
    return {
        'median_tps': middle,
        'worst_tps': worst,
        'worst_share': worst / middle if middle else 0,
        'worst_at': at,
        'below_half': sum(rate < middle / 2 for _, rate in seconds),
    }


def mean_between(progress, begin, end):
    """Mean rate of the seconds that end in (begin, end]."""
    rates = [rate for at, rate in progress if begin < at <= end]
    return statistics.fmean(rates) if rates else 0


def rounded(value):
    """Four digits that say something, as text; None: nothing."""
    if value is None:
        return ''
    if value == 0 or not math.isfinite(value):
        return f'{value:g}'
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f'{value:,.{min(digits, 6)}f}'


def group(rows):
    """{(workload, case): {side: [row, ...]}}, in the order of the rows."""
    result = {}
    for row in rows:
        result.setdefault((row['workload'], row['case']), {}).setdefault(row['side'],
                                                                         []).append(row)
    return result


def figure(rows, name):
    """The median of a figure over rounds; None if no round has it."""
    values = [float(row[name]) for row in rows if row.get(name) not in (None, '')]
    return median(values) if values else None


def case_ratio(sides, side, name=None, baseline=BASELINE):
    """Ratio of a case's figure on a side to the baseline's."""
    if baseline not in sides or side not in sides:
        return None
    row = sides[side][0]
    name = name or row['measure']
    return ratio(figure(sides[side], name), figure(sides[baseline], name), row['better'])


def ratio_range(sides, side, baseline=BASELINE):
    """The least and the greatest ratio of a round; None if fewer than two rounds have one."""
    of_baseline = {row['round']: row for row in sides.get(baseline, [])}
    found = []
    for row in sides.get(side, []):
        other = of_baseline.get(row['round'], {})
        values = [one.get(row['measure']) for one in (row, other)]
        if all(value not in (None, '') for value in values):
            found.append(ratio(*map(float, values), row['better']))
    found = [value for value in found if value]
    return (min(found), max(found)) if len(found) > 1 else None
