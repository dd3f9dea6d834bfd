"""Charts of lines and points as SVG text, readable on light and dark pages."""

from html import escape

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 56
COLOURS = ["#3b82c4", "#d1762b", "#3a9e6e", "#b0568f", "#8a7a2e"]
GREY = "#777777"  # for text and lines: seen on white and on black


def nice_ticks(low, high, about=6):
    """Round numbers from low to high."""
    rough = (high - low) / about or 1
    power = 10 ** len(str(int(rough))) / 10 if rough >= 1 else 1
    while power > rough:
        power /= 10
    step = next(power * k for k in (1, 2, 5, 10) if power * k >= rough)
    first = int(low / step)
    ticks = [k * step for k in range(first, first + about + 8)]
    return [t for t in ticks if low - 1e-9 <= t <= high + 1e-9]


class Chart:
    """`series`: (name, points, whether they are a line). A name that occurs again keeps its
    colour; lines are called predicted, points measured."""

    def __init__(self, title, x_label, y_label, series):
        self.title, self.x_label, self.y_label, self.series = title, x_label, y_label, series
        xs = [x for _, points, _ in series for x, _ in points]
        ys = [y for _, points, _ in series for _, y in points]
        self.x_range = min(xs), max(xs)
        self.y_range = min(0, *ys), max(ys) * 1.05 or 1
        names = list(dict.fromkeys(name for name, _, _ in series))
        self.colours = {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(names)}

    def x(self, value):
        low, high = self.x_range
        return LEFT + (value - low) / ((high - low) or 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        low, high = self.y_range
        return HEIGHT - BOTTOM - (value - low) / ((high - low) or 1) * (HEIGHT - TOP - BOTTOM)

    def axes(self):
        for t in nice_ticks(*self.x_range):
            x = self.x(t)
            yield line(x, TOP, x, HEIGHT - BOTTOM, 0.25)
            yield text(x, HEIGHT - BOTTOM + 18, f"{t:g}", "middle")
        for t in nice_ticks(*self.y_range):
            y = self.y(t)
            yield line(LEFT, y, WIDTH - RIGHT, y, 0.25)
            yield text(LEFT - 8, y + 4, f"{t:g}", "end")
        yield line(LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM)
        yield line(LEFT, TOP, LEFT, HEIGHT - BOTTOM)
        middle = (LEFT + WIDTH - RIGHT) / 2
        yield text(middle, HEIGHT - 14, self.x_label, "middle")
        yield text(middle, 24, self.title, "middle", 'font-weight="bold"')
        turned = f'transform="rotate(-90 18 {(TOP + HEIGHT - BOTTOM) / 2})"'
        yield text(18, (TOP + HEIGHT - BOTTOM) / 2, self.y_label, "middle", turned)

    def marks(self):
        for name, points, joined in self.series:
            places = [(self.x(x), self.y(y)) for x, y in points]
            if joined:
                path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
                yield (
                    f'<polyline points="{path}" fill="none" stroke="{self.colours[name]}" '
                    'stroke-width="2"/>'
                )
            else:
                for x, y in places:
                    yield circle(x, y, self.colours[name])

    def legend(self):
        x, y = WIDTH - RIGHT + 16, TOP + 10
        for name, colour in self.colours.items():
            yield f'<rect x="{x}" y="{y - 9}" width="12" height="12" fill="{colour}"/>'
            yield text(x + 18, y + 2, name)
            y += 20
        for joined, meaning in ((True, "predicted"), (False, "measured")):
            if any(kind == joined for _, _, kind in self.series):
                mark = line(x, y - 3, x + 12, y - 3) if joined else circle(x + 6, y - 3, GREY)
                yield mark
                yield text(x + 18, y + 2, meaning)
                y += 20

    def svg(self):
        parts = [*self.axes(), *self.marks(), *self.legend()]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" font-size="12">\n'
            + "\n".join(parts)
            + "\n</svg>\n"
        )


def text(x, y, content, anchor="start", extra=""):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{GREY}" {extra}>'
        f"{escape(content)}</text>"
    )


def line(x1, y1, x2, y2, opacity=1.0):
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{GREY}" '
        f'stroke-opacity="{opacity:g}"/>'
    )


def circle(x, y, colour):
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'
