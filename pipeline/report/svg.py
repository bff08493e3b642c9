"""Small drawings as SVG: elements, and a frame with axes. All text is escaped; the style has the colours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

Attribute = str | float | None


def element(name: str, *children: str | Markup, **attributes: Attribute) -> Markup:
    """An element; underscores in the names of attributes stand for hyphens, and a last one for nothing."""
    parts = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    ]
    inner = "".join(escape(child) for child in children)
    return Markup(f"<{name}{''.join(parts)}>{inner}</{name}>")


def drawing(width: int, height: int, title: str, *children: Markup) -> Markup:
    """The outermost element; `title` is what a screen reader says."""
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=title,
        width=width,
        height=height,
    )


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, at most `most` of them or so."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def short(number: float) -> str:
    """A number in few characters, as in 12k."""
    if number != 0 and (abs(number) < 1e-3 or abs(number) >= 1e12):
        return f"{number:.0e}".replace("e-0", "e-").replace("e+0", "e")
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


@dataclass(frozen=True, slots=True)
class Axis:
    """From numbers to places on a line."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, values: Iterable[float], *, log: bool = False, start: float | None = None) -> Axis:
        """Wide enough for all values; those that a logarithm does not take are left out."""
        kept = [value for value in values if math.isfinite(value) and (value > 0 or not log)] or [1.0]
        low, high = min(kept) if start is None else start, max(kept)
        if log:
            return cls(low / 1.3, high * 1.3, True)
        return cls(low, high if high > low else low + 1)

    def place(self, value: float) -> float:
        """0 at the low end, 1 at the high end."""
        if self.log:
            span = math.log(self.high / self.low)
            return math.log(max(value, self.low) / self.low) / span
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if not self.log:
            return nice_ticks(self.low, self.high)
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        step = max(1, math.ceil((last - first + 1) / 6))
        powers = [10.0**i for i in range(first, last + 1, step)]
        return powers if len(powers) > 1 else [self.low * 1.3, self.high / 1.3]


@dataclass(frozen=True, slots=True)
class Frame:
    """A rectangle with two axes."""

    x: Axis
    y: Axis
    x_title: str
    y_title: str
    width: int = 480
    height: int = 280
    left: int = 52
    bottom: int = 44
    top: int = 14
    right: int = 14

    def px(self, value: float) -> float:
        return self.left + self.x.place(value) * (self.width - self.left - self.right)

    def py(self, value: float) -> float:
        return self.height - self.bottom - self.y.place(value) * (self.height - self.bottom - self.top)

    def axes(self, x_ticks: Sequence[float] | None = None) -> Markup:
        """Grid lines, ticks and titles."""
        parts: list[Markup] = []
        end, base = self.width - self.right, self.height - self.bottom
        for tick in self.y.ticks():
            y = self.py(tick)
            parts.append(element("line", x1=self.left, x2=end, y1=y, y2=y, class_="grid"))
            parts.append(element("text", short(tick), x=self.left - 6, y=y + 4, class_="tick end"))
        for tick in self.x.ticks() if x_ticks is None else x_ticks:
            x = self.px(tick)
            parts.append(element("line", x1=x, x2=x, y1=base, y2=base + 4, class_="axis"))
            parts.append(element("text", short(tick), x=x, y=base + 17, class_="tick middle"))
        parts.append(element("line", x1=self.left, x2=end, y1=base, y2=base, class_="axis"))
        middle = (self.left + end) / 2
        parts.append(element("text", self.x_title, x=middle, y=self.height - 7, class_="title middle"))
        turn = f"translate(13 {(self.top + base) / 2:.1f}) rotate(-90)"
        parts.append(element("text", self.y_title, transform=turn, class_="title middle"))
        return Markup("").join(parts)


def _text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{value} has no place in a drawing")
    return f"{value:.2f}".rstrip("0").rstrip(".")
