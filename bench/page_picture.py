"""The picture of a comparison: loss over samples, bytes between sites and seconds, as an SVG."""
import json
import math
import pathlib

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#7f7f7f")
WIDTH, HEIGHT, LEFT, TOP, PANEL, GAP, BOTTOM = 980, 350, 50, 30, 270, 50, 250


def curve(folder):
    """(samples, bytes, seconds, loss) of every score. Samples go by time: every run ends with as
    many as it computed."""
    folder = pathlib.Path(folder)
    summary = json.loads((folder / "summary.json").read_text())
    points = []
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        event = json.loads(line)
        loss = event["values"].get("loss") if event["kind"] == "score" else None
        if loss is None or not math.isfinite(loss):
            continue
        share = event["time_s"] / summary["time_s"] if summary["time_s"] else 0
        sent = event["values"].get("wan_bytes", share * summary["wan_bytes"])
        points.append((share * summary["samples"]["computed"], sent, event["time_s"], loss))
    return points


STEPS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 8))


def ticks(low, high):
    """Powers of ten, and as many between them as make four, if some do."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in STEPS:
        found = [s * 10.0 ** e for e in exponents for s in steps
                 if low * 0.999 <= s * 10.0 ** e <= high * 1.001]
        if len(found) >= 4:
            break
    return found


def panel(out, left, title, index, curves, bounds):
    xs = [p[index] for points in curves for p in points if p[index] > 0]
    low, high = min(xs), max(xs)
    if high <= low:
        high = low * 10
    bottom_loss, top_loss = bounds

    def x(value):
        return left + PANEL * math.log(max(value, low) / low) / math.log(high / low)

    def y(loss):
        loss = min(max(loss, bottom_loss), top_loss)
        return BOTTOM - (BOTTOM - TOP) * math.log(loss / bottom_loss) / math.log(
            top_loss / bottom_loss)

    out.append(f'<text x="{left}" y="{TOP - 12}" class="title">{title}</text>')
    for loss in ticks(bottom_loss, top_loss):
        out.append(f'<path d="M{left} {y(loss):.1f}h{PANEL}" class="grid"/>')
        out.append(f'<text x="{left - 6}" y="{y(loss) + 4:.1f}" class="end">{loss:g}</text>')
    for value in ticks(low, high):
        out.append(f'<text x="{x(value):.1f}" y="{BOTTOM + 16}" class="mid">{value:g}</text>')
    for i, points in enumerate(curves):
        if len(points) == 1:
            out.append(f'<circle cx="{x(points[0][index]):.1f}" cy="{y(points[0][3]):.1f}" r="3" '
                       f'fill="{COLOURS[i % len(COLOURS)]}"/>')
        if len(points) < 2:
            continue
        line = "L".join(f"{x(p[index]):.1f} {y(p[3]):.1f}" for p in points)
        out.append(f'<path d="M{line}" stroke="{COLOURS[i % len(COLOURS)]}" class="line"'
                   f'{dash(i)}/>')


def dash(i):
    return ' stroke-dasharray="6 3"' if i >= len(COLOURS) else ""


def picture(folders):
    names = [pathlib.Path(folder).name for folder in folders]
    curves = [curve(folder) for folder in folders]
    losses = [p[3] for points in curves for p in points]
    # What diverges is cut off at twice the loss at the beginning.
    starts = sorted(points[0][3] for points in curves if points)
    bounds = (min(losses) * 0.95, min(max(losses), 2 * starts[len(starts) // 2]))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
           f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
           "<style>.grid{stroke:#d8dee4}.line{fill:none;stroke-width:1.8}"
           ".title{font-weight:bold;font-size:13px}.end{text-anchor:end}.mid{text-anchor:middle}"
           "text{fill:#24292f}</style>",
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']
    for i, (title, index, scale) in enumerate((("loss over samples", 0, 1),
                                               ("over MB between sites", 1, 1e6),
                                               ("over seconds", 2, 1))):
        scaled = [[(p[0], p[1] / 1e6 if scale > 1 else p[1], p[2], p[3]) for p in points]
                  for points in curves]
        panel(out, LEFT + i * (PANEL + GAP), title, index, scaled, bounds)
    for i, name in enumerate(names):
        left, top = LEFT + 185 * (i % 5), BOTTOM + 42 + 20 * (i // 5)
        out.append(f'<path d="M{left} {top}h24" stroke="{COLOURS[i % len(COLOURS)]}" '
                   f'class="line"{dash(i)}/>')
        out.append(f'<text x="{left + 30}" y="{top + 4}">{name}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"
