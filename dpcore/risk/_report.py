"""A recommendation as text and as a self-contained page that a manager can read."""

from __future__ import annotations

import html
import math
import textwrap
from typing import TYPE_CHECKING

from dpcore._rounding import percent_up
from dpcore.risk import _svg
from dpcore.risk._decision import share

if TYPE_CHECKING:
    from dpcore.risk._decision import Limit, Recommendation


def level(limit: Limit) -> str:
    """A limit for people."""
    impossible = 0.0 if limit.kind == "upper" else math.inf
    if limit.value == impossible:
        return "no value is allowed"
    if limit.value in (0.0, math.inf):
        return "no limit"
    return f"{'at least' if limit.kind == 'lower' else 'at most'} {limit.value:.4g}"


def money(value: float) -> str:
    """An amount for people."""
    return f"{value:,.2f}" if abs(value) < 1e6 else f"{value:,.0f}"


def _asked(report: Recommendation) -> list[tuple[str, str]]:
    facts = report.facts
    rows = [("People in the data", f"{facts['records']:,}"), ("Releases", f"{facts['releases']:,}")]
    if facts["known"] is not None:
        rows.append(
            (
                "Attackers may know",
                f"{facts['known']:,} records; the share of yes among the rest is {share(facts['bias'])}",
            )
        )
    if facts["impact"] is not None:
        rows.append(("Damage if a count is learned exactly", money(facts["impact"])))
        rows.append(("Risk accepted (probability times damage)", money(facts["threshold"])))
    if facts["budget"] is not None:
        rows += [("Compensation", facts["cost"]), ("Budget", money(facts["budget"]))]
    if facts["allowed_error"] is not None:
        rows.append(("Mean error allowed on each release", f"{facts['allowed_error']:.4g}"))
    if facts["sensitivity"] != 1:
        rows.append(("Most that one person changes", f"{facts['sensitivity']:.4g}"))
    if facts["delta"] is not None:
        rows.append(
            (
                "Part of the probability without promise (delta)",
                f"{facts['delta']:.3g}, 1 in {1 / facts['delta']:,.4g}",
            )
        )
    return rows


def _meaning(report: Recommendation) -> list[str]:
    """What the recommended level means, sentence by sentence."""
    if report.epsilon is None or report.guess_right is None:
        return []
    facts = report.facts
    who = "everything about everybody else"
    if report.noise[0].assumption:
        who = f"no more than {facts['known']:,} of the other records"
    out = [
        f"Somebody who knows {who}, and holds it even whether a person's answer is yes or no, will guess it right "
        f"at most {percent_up(report.guess_right)} times in 100 after seeing all releases. Without the releases "
        "it is 50 in 100; 100 would be certainty."
    ]
    if report.count_right is None:
        out.append("The count itself is not hidden: the noise protects persons, given what attackers may know.")
    else:
        out.append(
            "Somebody who holds every possible count equally likely beforehand will name the exact count right at "
            f"most {percent_up(report.count_right)} times in 100."
        )
    if facts["impact"] is not None and report.count_right is not None:
        out.append(
            f"That is a risk of {money(facts['impact'] * report.count_right)} "
            f"({percent_up(report.count_right)} % of {money(facts['impact'])}), where {money(facts['threshold'])} "
            "is accepted."
        )
    if report.expected_cost is not None:
        out.append(
            f"Expected compensation is {money(report.expected_cost)}, within the budget of "
            f"{money(facts['budget'])}."
        )
        at_risk = facts.get("cost_at_risk")
        if at_risk is not None:
            out.append(
                "Counting also that the loss of Laplace noise is sometimes smaller than epsilon (cost at risk, "
                f"exact), it is {money(at_risk)}."
            )
    half = facts.get("half_level_confidence")
    if half is not None:
        out.append(
            f"With Laplace noise, the privacy actually lost in one release stays below {report.epsilon / 2:.3g} "
            f"(half of epsilon) with probability {100 * half:.1f} %. Do not plan with less than epsilon."
        )
    return out


def wrap(words: str, indent: str = "") -> str:
    """A paragraph for a terminal."""
    return textwrap.fill(words, 79, initial_indent=indent, subsequent_indent=indent)


def text(report: Recommendation) -> str:
    """The report for a terminal, 79 columns."""
    out = [report.title, "=" * min(len(report.title), 79), "", wrap(report.statement), ""]
    width = max(len(name) for name, _ in _asked(report))
    out += ["What was asked"] + [f"  {name:<{width}}  {value}" for name, value in _asked(report)] + [""]
    out += ["What each requirement says about epsilon"]
    width = max(len(limit.name) for limit in report.limits)
    for limit in report.limits:
        used = "" if limit.used else "  (not used)"
        line = f"  {limit.name:<{width}}  {level(limit)}{used}"
        out += textwrap.wrap(line, 79, subsequent_indent=" " * (width + 4))
    if report.noise:
        out += ["", "Noise on each release"]
        width = max(len(noise.name) for noise in report.noise)
        out.append(f"  {'':<{width}}  {'scale':>10}  {'mean error':>10}  {'95 % within':>11}")
        for noise in report.noise:
            out.append(
                f"  {noise.name:<{width}}  {noise.scale:>10.4g}  {noise.expected_error:>10.4g}"
                f"  {noise.interval:>11.4g}"
            )
    meaning = _meaning(report)
    if meaning:
        out += ["", "What it means"] + [wrap(sentence, "  ") for sentence in meaning]
    if report.notes:
        out += ["", "Notes"] + [wrap(note, "  ") for note in report.notes]
    return "\n".join(out)


_STYLE = """
:root{color-scheme:light}
body{font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:#222;background:#fff;margin:0}
main{max-width:52rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.7rem;margin:0 0 1rem}h2{font-size:1.15rem;margin:2.2rem 0 .6rem}
.verdict{border-left:6px solid #009E73;background:#eef7f4;padding:1rem 1.25rem;border-radius:4px}
.verdict.no{border-color:#D55E00;background:#fdf1ea}
.verdict b{font-size:1.35rem;display:block;margin-bottom:.35rem}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:.8rem;margin:1.2rem 0}
.card{border:1px solid #ddd;border-radius:6px;padding:.7rem .9rem}.card b{display:block;font-size:1.35rem}
.card span{color:#555;font-size:.88rem}
table{border-collapse:collapse;width:100%;margin:.6rem 0}th,td{padding:.4rem .6rem;border-bottom:1px solid #e3e3e3;
text-align:left;vertical-align:top}th{font-weight:600;background:#f6f6f6}td.n,th.n{text-align:right;white-space:nowrap}
tr.off td{color:#666}svg{width:100%;height:auto;display:block;margin:.6rem 0}
ul{padding-left:1.2rem}.small{color:#555;font-size:.88rem}
@media print{main{padding:0}.card,.verdict,svg,table{break-inside:avoid}}
"""


def page(report: Recommendation) -> str:
    """The report as one HTML file."""
    e = html.escape
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width,initial-scale=1'>",
        f"<title>{e(report.title)}</title><style>{_STYLE}</style></head><body><main><h1>{e(report.title)}</h1>",
        _verdict(report),
        "<p class='small'>epsilon sets how private the release is: a small value protects people well and blurs "
        "the numbers, a large one does the opposite.</p>",
    ]
    if report.noise:
        parts.append(_cards(report))
        parts.append("<h2>What it means</h2><ul>")
        parts += [f"<li>{e(sentence)}" for sentence in _meaning(report)]
        parts.append("</ul>")
    parts.append("<h2>What was asked</h2><table>")
    parts += [f"<tr><td>{e(name)}<td class='n'>{e(value)}" for name, value in _asked(report)]
    parts.append("</table>")
    parts.append("<h2>Which values of epsilon are possible</h2>")
    bars = [
        _svg.Bar(
            limit.name,
            limit.value if limit.kind == "lower" else 0.0,
            limit.value if limit.kind == "upper" else math.inf,
            limit.used,
        )
        for limit in report.limits
    ]
    parts.append(
        _svg.ranges("Allowed values of epsilon by requirement", bars, (report.lower, report.upper), report.epsilon)
    )
    together = (
        "the shaded band is what all of them allow together" if report.feasible else ("no value is in all of them")
    )
    parts.append(
        f"<p class='small'>Blue bars are the values that a requirement allows; {together}. Grey bars are other "
        "methods, shown for comparison and not used.</p>"
    )
    parts.append("<table><tr><th>Requirement<th class='n'>epsilon<th>How it is computed")
    for limit in report.limits:
        parts.append(
            f"<tr{'' if limit.used else ' class=off'}><td>{e(limit.name)}<td class='n'>{level(limit)}"
            f"<td>{e(limit.note)}"
        )
    parts.append("</table>")
    parts += _noise(report) + _plots(report)
    if report.notes:
        parts.append("<h2>Notes</h2><ul>")
        parts += [f"<li>{e(note)}" for note in report.notes]
        parts.append("</ul>")
    parts.append(
        "<p class='small'>epsilon is the total privacy level of one person over all releases: whatever is "
        "published, its probability with and without that person's data differs by a factor of at most e to the "
        "power of epsilon. Made with dpcore; the methods and their proofs are in its "
        "documentation for auditors.</p>"
    )
    return "\n".join(parts) + "</main></body></html>"


def _verdict(report: Recommendation) -> str:
    e = html.escape
    if report.conflict is not None:
        c = report.conflict
        remedies = "".join(f"<li>{e(r[0].upper() + r[1:])}." for r in c.remedies)
        first, second = (e(name[0].lower() + name[1:]) for name in (c.first, c.second))
        help_ = f"<p>Each of these would do:</p><ul>{remedies}</ul>" if remedies else ""
        needs = f" needs epsilon of at least <strong>{c.at_least:.4g}</strong>" if c.at_least > 0 else ""
        allows = "no value, however small"
        if c.at_most > 0:
            times = c.at_least / c.at_most
            allows = f"at most <strong>{c.at_most:.4g}</strong>, too little by a factor of {times:.3g}"
        gap = f"The {first}{needs}; the {second} allows {allows}." if needs else f"The {second} allows {allows}."
        return f"<div class='verdict no'><b>No epsilon meets all requirements.</b><p>{gap}</p>{help_}</div>"
    assert report.epsilon is not None
    upper = "without an upper limit" if math.isinf(report.upper) else f"up to {report.upper:.4g}"
    lower = "from any value above 0" if report.lower == 0 else f"from {report.lower:.4g}"
    return (
        f"<div class='verdict'><b>Use epsilon = {report.epsilon:.4g}</b>{e(report.noise[0].statement)} "
        f"Every value {lower} {upper} meets the requirements; what decides is the "
        f"{e(report.binding[0].lower() + report.binding[1:])}.</div>"
    )


def _cards(report: Recommendation) -> str:
    assert report.guess_right is not None
    first = report.noise[0]
    cards = [
        (f"{first.expected_error:.3g}", "mean error of each release"),
        (f"± {first.interval:.3g}", "holds 95 of 100 errors"),
        (
            f"{percent_up(report.guess_right, 0)} in 100",
            "right guesses about one person at most (50 without release)",
        ),
    ]
    if report.expected_cost is not None:
        cards.append((money(report.expected_cost), "expected compensation"))
    elif report.count_right is not None:
        cards.append((f"{percent_up(report.count_right, 0)} in 100", "right guesses at the exact count at most"))
    inner = "".join(
        f"<div class='card'><b>{html.escape(a)}</b><span>{html.escape(b)}</span></div>" for a, b in cards
    )
    return f"<div class='cards'>{inner}</div>"


def _noise(report: Recommendation) -> list[str]:
    if not report.noise:
        return []
    e = html.escape
    parts = ["<h2>The noise that this means</h2><table><tr><th>Noise on each release<th class='n'>scale"]
    parts.append("<th class='n'>mean error<th class='n'>95 of 100 within<th>holds if")
    delta = report.facts["delta"]
    for noise in report.noise:
        always = "always" if noise.name == "Laplace noise" else f"always, up to delta = {delta:.3g}"
        parts.append(
            f"<tr><td>{e(noise.name)}<td class='n'>{noise.scale:.4g}<td class='n'>{noise.expected_error:.4g}"
            f"<td class='n'>± {noise.interval:.4g}<td>{e(noise.assumption) or always}"
        )
    parts.append("</table>")
    return parts


def _plots(report: Recommendation) -> list[str]:
    curves = report.curves
    levels = curves["epsilon"]
    parts = ["<h2>Privacy against accuracy</h2>"]
    error = list(curves["error"].items())
    allowed = curves["allowed_error"]
    limit = None if allowed is None else ("allowed", allowed)
    parts.append(
        _svg.curves("Mean error of each release by epsilon", levels, error, limit, report.epsilon, "mean error")
    )
    if "risk" in curves:
        parts.append("<h2>Risk of disclosure</h2>")
        series = [("probability that the count is guessed right, times damage", curves["risk"])]
        bound = ("accepted", curves["threshold"])
        parts.append(_svg.curves("Risk by epsilon", levels, series, bound, report.epsilon, "risk"))
    if "cost" in curves:
        parts.append("<h2>Expected compensation</h2>")
        series = [("cost of epsilon", curves["cost"])]
        if "cost_at_risk" in curves:
            series.append(("cost at risk of Laplace noise, exact confidence", curves["cost_at_risk"]))
        bound = ("budget", curves["budget"])
        parts.append(_svg.curves("Cost by epsilon", levels, series, bound, report.epsilon, "cost"))
    return parts
