"""Pictures of the figures, drawn by Altair: lines over a range, bars beside bars, and the printed figures as dots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.charts import MISSING_PACKAGES
from discreet.errors import Unsupported
from discreet.sdc.report_charts import COLORS, DASHES, LABEL_SPACING, LEGEND, SHAPES, Chart

Line = Sequence[tuple[float, float]]


def draw_lines(
    title: str,
    sentence: str,
    across: str,
    up: str,
    series: Mapping[str, Line],
    dots: Mapping[str, Line] | None = None,
    log: str = "",
    steps: bool = False,
) -> Chart:
    """A line for each name, told apart by colour and dash; `dots` are printed figures; `log` names axes, "x", "xy"."""
    alt = _import_altair()
    rows = [{"x": x, "y": y, "line": name} for name, points in series.items() for x, y in points]
    names = list(series)
    x, y = (_build_axis(alt, axis, head, axis in log) for axis, head in (("x", across), ("y", up)))
    looks = {
        "color": _build_channel(alt.Color, names, COLORS),
        "strokeDash": _build_channel(alt.StrokeDash, names, DASHES),
    }
    line_marks = alt.Chart(alt.Data(values=rows)).mark_line(interpolate="step-after" if steps else "linear")
    layers = [line_marks.encode(x=x, y=y, **looks)]
    if dots:
        points = [{"x": a, "y": b, "line": name} for name, spots in dots.items() for a, b in spots]
        shape = _build_channel(alt.Shape, list(dots), SHAPES, is_named=True)
        layers.append(
            alt.Chart(alt.Data(values=points))
            .mark_point(filled=True, size=45, color="#111827")
            .encode(x=x, y=y, shape=shape)
        )
    return Chart(title, sentence, _build_spec(alt.layer(*layers).resolve_scale(shape="independent")))


def draw_bars(title: str, sentence: str, across: str, up: str, series: Mapping[str, Mapping[str, float]]) -> Chart:
    """Bars side by side: for each name a height in each group."""
    alt = _import_altair()
    rows = [{"group": group, "line": name, "y": y} for name, heights in series.items() for group, y in heights.items()]
    groups, names = list(dict.fromkeys(row["group"] for row in rows)), list(series)
    bar_marks = (
        alt.Chart(alt.Data(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("group:N", title=across, sort=groups, axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("line:N", sort=names),
            y=alt.Y("y:Q", title=up),
            color=_build_channel(alt.Color, names, COLORS),
        )
    )
    return Chart(title, sentence, _build_spec(bar_marks))


def draw_places(
    title: str,
    sentence: str,
    across: str,
    up: str,
    spots: Mapping[str, Line],
    outlines: Mapping[str, Line] | None = None,
    labels: Sequence[tuple[float, float, str]] = (),
    is_named: bool = True,
) -> Chart:
    """Spots told apart by colour and shape, outlines from point to point as they are listed, and words at places."""
    alt = _import_altair()
    x, y = (
        _build_axis(alt, axis, head, False).scale(zero=False, padding=8) for axis, head in (("x", across), ("y", up))
    )
    layers = []
    if outlines:
        rows = [
            {"x": a, "y": b, "line": name, "at": i} for name, line in outlines.items() for i, (a, b) in enumerate(line)
        ]
        looks = {"color": _build_named_channel(alt.Color, outlines, COLORS, is_named)}
        looks["strokeDash"] = _build_named_channel(alt.StrokeDash, outlines, DASHES, is_named)
        layers.append(alt.Chart(alt.Data(values=rows)).mark_line().encode(x=x, y=y, order="at:Q", **looks))
    if spots:
        rows = [{"x": a, "y": b, "line": name} for name, line in spots.items() for a, b in line]
        shapes = [SHAPES[(i + i // len(SHAPES)) % len(SHAPES)] for i in range(len(spots))]
        looks = {
            "color": _build_named_channel(alt.Color, spots, COLORS, is_named),
            "shape": _build_named_channel(alt.Shape, spots, shapes, is_named),
        }
        layers.append(alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=45).encode(x=x, y=y, **looks))
    if labels:
        rows = [{"x": a, "y": b, "word": word} for a, b, word in labels]
        layers.append(alt.Chart(alt.Data(values=rows)).mark_text(fontSize=13).encode(x=x, y=y, text="word:N"))
    return Chart(
        title,
        sentence,
        _build_spec(
            alt.layer(*layers).resolve_scale(color="independent", shape="independent", strokeDash="independent")
        ),
    )


def _import_altair() -> Any:
    try:
        import altair
    except ImportError:
        raise Unsupported(MISSING_PACKAGES) from None
    return altair


def _build_axis(alt: Any, axis: str, head: str, log: bool) -> Any:
    scale = alt.Scale(type="log") if log else alt.Scale(zero=False)
    return (alt.X if axis == "x" else alt.Y)(
        f"{axis}:Q", title=head, scale=scale, axis=alt.Axis(tickCount=6, **LABEL_SPACING)
    )


def _build_channel(channel: Any, names: Sequence[str], values: Sequence[Any], is_named: bool = False) -> Any:
    """Each name with a value of its own; no legend where there is one name, unless it must be `named`."""
    import altair as alt

    used_values = [values[i % len(values)] for i in range(len(names))]
    return channel(
        "line:N",
        title=None,
        scale=alt.Scale(domain=list(names), range=used_values),
        legend=alt.Legend(**LEGEND) if is_named or len(names) > 1 else None,
    )


def _build_named_channel(channel: Any, series: Mapping[str, Line], values: Sequence[Any], is_named: bool) -> Any:
    """The same with a legend, or without any where there are too many to name."""
    looks = _build_channel(channel, list(series), values)
    return looks.legend(**LEGEND, columns=2) if is_named else looks.legend(None)


def _build_spec(chart: Any) -> dict[str, Any]:
    spec: dict[str, Any] = chart.to_dict()
    spec.pop("config", None)
    return spec
