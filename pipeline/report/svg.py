"""Small drawings as SVG: elements, and a frame with axes. Text is escaped; the stylesheet has the colours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

Attribute = str | float | None


def element(name: str, *children: str | Markup, **attributes: Attribute) -> Markup:
    """An element. In names of attributes, underscores become hyphens and a trailing one is dropped."""
    from markupsafe import Markup, escape  # imported here, because only reports need it

    parts = [
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    ]
    inner = "".join(escape(child) for child in children)
    return Markup(f"<{name}{''.join(parts)}>{inner}</{name}>")


def drawing(width: int, height: int, title: str, *children: Markup) -> Markup:
    """The outermost element; screen readers say its `title`."""
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
    """Round numbers from `low` to `high`, about `most` of them at the most."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [i * step for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def short(number: float) -> str:
    """A number in a few characters, as in 12k."""
    if number != 0 and (abs(number) < 1e-3 or abs(number) >= 1e12):
        return f"{number:.0e}".replace("e-0", "e-").replace("e+0", "e")
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


@dataclass(frozen=True, slots=True)
class Axis:
    """Map of numbers to places on a line."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def of(cls, values: Iterable[float], *, log: bool = False, start: float | None = None) -> Axis:
        """Axis that is wide enough for all values which it can show."""
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
        """Round numbers to mark on the axis."""
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
        """Horizontal pixel of a value of x."""
        return self.left + self.x.place(value) * (self.width - self.left - self.right)

    def py(self, value: float) -> float:
        """Vertical pixel of a value of y."""
        return self.height - self.bottom - self.y.place(value) * (self.height - self.bottom - self.top)

    def axes(self, x_ticks: Sequence[float] | None = None) -> Markup:
        """Grid lines, ticks and titles."""
        from markupsafe import Markup

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
        raise ValueError(f"{value} cannot be drawn")
    return f"{value:.2f}".rstrip("0").rstrip(".")
