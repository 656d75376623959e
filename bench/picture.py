#!/usr/bin/env python3
"""Table (to stdout) and picture of what a benchmark has measured: picture.py IN.tsv OUT.svg UNIT

A line of IN: workload, threads, who, then one or more measurements.  Lines that begin alike belong together.
"""

import statistics
import sys

COLORS = ["#1b6ca8", "#c8553d", "#588157", "#8d6a9f", "#d4a017", "#3a3a3a", "#6fa8a8"]
WIDTH, HEIGHT, LEFT, TOP, BELOW = 330, 230, 60, 40, 40
CHARTS_IN_A_ROW = 3
NAME_WIDTH, NAME_HEIGHT = 200, 20


def read(path):
    """{workload: {who: {threads: (median, best)}}}, in the order of the file."""
    rounds = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            workload, threads, who, *values = line.rstrip("\n").split("\t")
            rounds.setdefault(workload, {}).setdefault(who, {}).setdefault(int(threads), []).extend(map(float, values))
    return {workload: {who: {t: (statistics.median(v), max(v)) for t, v in runs.items()} for who, runs in whos.items()}
            for workload, whos in rounds.items()}


def all_threads(whos):
    return sorted({t for values in whos.values() for t in values})


def table(data, unit):
    for workload, whos in data.items():
        threads = all_threads(whos)
        print(f"{workload}: {unit}, median (best)")
        print("  {:30}".format("threads") + "".join(f"{t:>18}" for t in threads))
        for who, values in whos.items():
            cells = "".join("{:>18}".format("{:.3f} ({:.3f})".format(*values[t]) if t in values else "") for t in threads)
            print(f"  {who:30}{cells}")


def chart(workload, whos, colors, x0, y0):
    threads = all_threads(whos)
    top = max(best for values in whos.values() for _, best in values.values()) * 1.05 or 1
    x = {t: x0 + LEFT + i * (WIDTH - LEFT - 20) / max(1, len(threads) - 1) for i, t in enumerate(threads)}

    def y(value):
        return y0 + TOP + HEIGHT * (1 - value / top)

    yield f'<text x="{x0 + LEFT}" y="{y0 + TOP - 12}" font-weight="bold">{workload}</text>'
    magnitude = 1.0
    while magnitude > top:
        magnitude /= 10
    while magnitude * 10 <= top:
        magnitude *= 10
    step = next(s for s in (magnitude / 10, magnitude / 5, magnitude / 2, magnitude, 2 * magnitude) if top / s <= 8)
    for i in range(int(top / step) + 1):
        level = y(i * step)
        yield f'<line x1="{x0 + LEFT}" x2="{x0 + WIDTH - 20}" y1="{level:.1f}" y2="{level:.1f}" stroke="#ddd"/>'
        yield f'<text x="{x0 + LEFT - 8}" y="{level + 4:.1f}" text-anchor="end">{i * step:.4g}</text>'
    for t in threads:
        yield f'<text x="{x[t]:.1f}" y="{y0 + TOP + HEIGHT + 18}" text-anchor="middle">{t}</text>'
    for who, values in whos.items():
        color, here = colors[who], sorted(values)
        points = " ".join(f"{x[t]:.1f},{y(values[t][0]):.1f}" for t in here)
        yield f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>'
        for t in here:
            yield f'<line x1="{x[t]:.1f}" x2="{x[t]:.1f}" y1="{y(values[t][0]):.1f}" y2="{y(values[t][1]):.1f}" stroke="{color}"/>'
            yield f'<circle cx="{x[t]:.1f}" cy="{y(values[t][0]):.1f}" r="3" fill="{color}"/>'


def picture(data, path, unit):
    names = list(dict.fromkeys(who for whos in data.values() for who in whos))
    colors = {who: COLORS[i % len(COLORS)] for i, who in enumerate(names)}
    columns = min(CHARTS_IN_A_ROW, len(data))
    rows = -(-len(data) // columns)
    width = WIDTH * columns + 20
    names_in_a_row = max(1, (width - 20) // NAME_WIDTH)
    head = 12 + NAME_HEIGHT * -(-len(names) // names_in_a_row)
    height = head + rows * (TOP + HEIGHT + BELOW) + 20
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>']
    for i, name in enumerate(names):
        x, y = 20 + i % names_in_a_row * NAME_WIDTH, 12 + i // names_in_a_row * NAME_HEIGHT
        lines.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colors[name]}"/>')
        lines.append(f'<text x="{x + 17}" y="{y + 10}">{name}</text>')
    for i, (workload, whos) in enumerate(data.items()):
        lines += chart(workload, whos, colors, i % columns * WIDTH, head + i // columns * (TOP + HEIGHT + BELOW))
    lines.append(f'<text x="{width // 2}" y="{height - 8}" text-anchor="middle">threads; {unit}, median and best</text>')
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines + ["</svg>"]) + "\n")


def main():
    source, target, unit = sys.argv[1:]
    data = read(source)
    table(data, unit)
    picture(data, target, unit)


if __name__ == "__main__":
    main()
