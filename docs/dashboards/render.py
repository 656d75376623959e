#!/usr/bin/env python3
"""Renders leanstore.json as a page without Grafana: the panels, with what Prometheus says of them.

    docs/dashboards/render.py http://localhost:9090 --minutes 10 > page.html
    chromium --headless --window-size=1600,2600 --screenshot=leanstore.png page.html

Needs matplotlib.  Queries are the dashboard's own; Prometheus computes them.
"""
import argparse
import base64
import html
import io
import json
import time
import urllib.parse
import urllib.request
from pathlib import Path

import matplotlib

matplotlib.use('svg')
from matplotlib import pyplot, ticker   # noqa: E402  the backend comes first

DASHBOARD = Path(__file__).resolve().parent / 'leanstore.json'
COLUMN_PX, GAP_PX, ROW_PX, TITLE_PX = 64, 4, 34, 36
STEPS = 120

STYLE = """
body { background: #f4f5f5; font: 13px sans-serif; margin: 12px; color: #24292e; }
.grid { display: grid; grid-template-columns: repeat(24, %dpx); grid-auto-rows: %dpx; gap: 0 %dpx; }
.panel { background: white; border: 1px solid #dde; margin: 2px; overflow: hidden; }
.panel h3 { font-size: 13px; margin: 6px 8px 0; }
.panel img { width: 100%%; }
.row { font-weight: bold; align-self: center; padding-left: 4px; }
.stat { font-size: 40px; text-align: center; padding-top: 50px; color: #37872d; }
""" % (COLUMN_PX, ROW_PX, GAP_PX)


def scaled(value, base, units):
    for unit in units:
        if abs(value) < base or unit == units[-1]:
            return f'{value:.3g} {unit}'.strip()
        value /= base
    return ''


def shown(value, unit):
    if unit in ('bytes', 'Bps'):
        return scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB']) + '/s' * (unit == 'Bps')
    if unit == 's':
        return f'{value:.3g} s' if value >= 1 or value == 0 else f'{value * 1000:.3g} ms'
    if unit == 'percentunit':
        return f'{value * 100:.4g} %'
    return scaled(value, 1000, ['', 'K', 'M', 'G']) + '/s' * (unit == 'ops')


class Prometheus:
    def __init__(self, url, minutes):
        self.url, self.end = url, time.time()
        self.start = self.end - minutes * 60

    def ranges(self, expression):
        """[(labels, [(seconds, value)])]"""
        for name, value in (('$instance', '.*'), ('$__rate_interval', '30s')):
            expression = expression.replace(name, value)
        query = urllib.parse.urlencode({'query': expression, 'start': self.start, 'end': self.end,
                                        'step': (self.end - self.start) / STEPS})
        with urllib.request.urlopen(f'{self.url}/api/v1/query_range?{query}') as answer:
            series = json.load(answer)['data']['result']
        return [(one['metric'], [(t - self.end, float(v)) for t, v in one['values']])
                for one in series]


def legend(target, labels):
    text = target.get('legendFormat', '')
    for name, value in labels.items():
        text = text.replace('{{%s}}' % name, value)
    return text


def series_of(panel, prometheus):
    return [(legend(target, labels), points) for target in panel['targets']
            for labels, points in prometheus.ranges(target['expr'])]


def draw(panel, series):
    """An SVG of a panel's lines."""
    defaults = panel['fieldConfig']['defaults']
    place = panel['gridPos']
    size = place['w'] * (COLUMN_PX + GAP_PX) - 3 * GAP_PX, place['h'] * ROW_PX - TITLE_PX
    figure, axes = pyplot.subplots(figsize=[px / 100 for px in size], layout='constrained')
    if defaults['custom']['stacking']['mode'] == 'normal' and series:
        times = sorted({t for _, points in series for t, _ in points})
        at = [dict(points) for _, points in series]
        axes.stackplot(times, [[one.get(t, 0) for t in times] for one in at],
                       labels=[name for name, _ in series], alpha=0.7)
    else:
        for name, points in series:
            axes.plot(*zip(*points), label=name, linewidth=1.3)
    axes.set_ylim(bottom=defaults.get('min', 0))
    axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda v, _: shown(v, defaults['unit'])))
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda t, _: f'{t / 60:.0f} min'))
    axes.grid(alpha=0.3)
    axes.tick_params(labelsize=8)
    for side in ('top', 'right'):
        axes.spines[side].set_visible(False)
    if series:
        figure.legend(loc='outside lower center', ncols=4, fontsize=8, frameon=False)
    out = io.BytesIO()
    figure.savefig(out, format='svg')
    pyplot.close(figure)
    return base64.b64encode(out.getvalue()).decode()


def body_of(panel, prometheus):
    series = series_of(panel, prometheus)
    if panel['type'] == 'stat':
        last = series[0][1][-1][1] if series else 0
        text = shown(last, panel['fieldConfig']['defaults']['unit'])
        return f'<div class="stat">{html.escape(text)}</div>'
    return f'<img src="data:image/svg+xml;base64,{draw(panel, series)}">'


def page(dashboard, prometheus):
    yield f'<!DOCTYPE html><meta charset="utf-8"><title>leanstore</title><style>{STYLE}</style>'
    yield '<div class="grid">'
    for panel in dashboard['panels']:
        place = panel['gridPos']
        style = (f'grid-column: {place["x"] + 1} / span {place["w"]}; '
                 f'grid-row: {place["y"] + 1} / span {place["h"]}')
        title = html.escape(panel['title'])
        if panel['type'] == 'row':
            yield f'<div class="row" style="{style}">{title}</div>'
        else:
            yield (f'<div class="panel" style="{style}"><h3>{title}</h3>'
                   f'{body_of(panel, prometheus)}</div>')
    yield '</div>'


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('prometheus', help='its URL')
    parser.add_argument('--minutes', type=float, default=10, help='up to now')
    arguments = parser.parse_args()
    prometheus = Prometheus(arguments.prometheus, arguments.minutes)
    print('\n'.join(page(json.loads(DASHBOARD.read_text(encoding='utf-8')), prometheus)))


if __name__ == '__main__':
    main()
