"""What the reproductions share: CSV data, figures as PNG and SVG, and the page of comparisons."""

from __future__ import annotations

import csv
import dataclasses
import html
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Okabe and Ito's palette: distinguishable with every common form of colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 5)), (0, (1, 1)))


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One published number beside ours."""

    what: str
    published: str
    ours: str
    explanation: str = ""


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page: a heading, paragraphs, figures by name with a caption, comparisons."""

    heading: str
    paragraphs: Sequence[str] = ()
    figures: Sequence[tuple[str, str]] = ()
    comparisons: Sequence[Comparison] = ()


def write_csv(path: Path, columns: Mapping[str, Sequence[Any]]) -> Path:
    """Columns of equal length, floats in full precision."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([repr(float(x)) if isinstance(x, float) else x for x in row])
    return path


def pyplot() -> Any:
    """matplotlib.pyplot without a screen, in the house style; a clear error when it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise ImportError("figures need matplotlib: pip install 'dpcore[plot]'") from None
    matplotlib.use("Agg")
    from cycler import cycler
    from matplotlib import pyplot

    pyplot.rcParams.update(
        {
            "axes.prop_cycle": cycler(color=COLOURS) + cycler(linestyle=LINES),
            "axes.grid": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.constrained_layout.use": True,
            "figure.figsize": (6.4, 4.2),
            "font.size": 10,
            "grid.alpha": 0.3,
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "savefig.dpi": 150,
            "svg.hashsalt": "dpcore",
        }
    )
    return pyplot


def save_figure(figure: Any, out: Path, name: str) -> list[Path]:
    """The figure as <name>.png and <name>.svg in `out`; the same bytes every time. Closes it."""
    out.mkdir(parents=True, exist_ok=True)
    paths = [out / f"{name}.png", out / f"{name}.svg"]
    figure.savefig(paths[0], metadata={"Software": None})
    figure.savefig(paths[1], metadata={"Date": None})
    pyplot().close(figure)
    return paths


def note(progress: bool, text: str) -> None:
    """A line of progress, on a terminal only."""
    if progress and sys.stderr.isatty():
        print(f"reproduce: {text}", file=sys.stderr, flush=True)


_STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222}
table{border-collapse:collapse;margin:1rem 0;width:100%}th,td{border:1px solid #bbb;padding:.35rem .6rem;
text-align:left;vertical-align:top}th{background:#f2f2f2}img{max-width:100%}figcaption{color:#444;font-size:.9rem}
figure{margin:1.5rem 0}"""


def write_page(out: Path, name: str, title: str, sections: Sequence[Section]) -> list[Path]:
    """The page as Markdown and as HTML, beside its figures.

    Figures are named after their source, so that several sources can share a folder.
    """
    for figure, _ in (pair for section in sections for pair in section.figures):
        if not figure.startswith(f"{name}-") or not (out / f"{figure}.svg").exists():
            raise ValueError(f"figure {figure!r} must be there and be named {name}-...")
    out.mkdir(parents=True, exist_ok=True)
    text = [f"# {title}", ""]
    page = [f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{html.escape(title)}</title>"]
    page += [f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>"]
    for section in sections:
        text += [f"## {section.heading}", ""]
        page.append(f"<h2>{html.escape(section.heading)}</h2>")
        for paragraph in section.paragraphs:
            text += [paragraph, ""]
            page.append(f"<p>{html.escape(paragraph)}</p>")
        for figure, caption in section.figures:
            text += [f"![{caption}]({figure}.png)", "", f"*{caption}*", ""]
            caption = html.escape(caption)
            page.append(
                f"<figure><img src='{figure}.svg' alt='{caption}'><figcaption>{caption}</figcaption></figure>"
            )
        if section.comparisons:
            text += ["| quantity | published | dpcore | why they differ |", "|---|---|---|---|"]
            page.append("<table><tr><th>quantity<th>published<th>dpcore<th>why they differ")
            for row in section.comparisons:
                cells = (row.what, row.published, row.ours, row.explanation)
                text.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
                page.append("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in cells))
            text.append("")
            page.append("</table>")
    paths = [out / f"{name}.md", out / f"{name}.html"]
    paths[0].write_text("\n".join(text), encoding="utf-8")
    paths[1].write_text("\n".join(page) + "</html>\n", encoding="utf-8")
    return paths
