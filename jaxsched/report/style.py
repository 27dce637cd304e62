"""Colours and the style sheet of the HTML report.

One colour per policy everywhere. Learned policies get the strong hues, references an amber hatch,
baselines muted ones that differ in lightness as well as hue, so that the page also works
without colour vision and in grey print. Locality levels go from a calm blue (best) through amber
to dark red, monotonic in lightness.
"""

from collections.abc import Iterable

from jaxsched.report.schema import Policy

LEVELS = 4  # locality levels with a colour of their own; higher ones share the last

_LIGHT = {
    "page": "#fcfcfa", "panel": "#ffffff", "ink": "#1b1f24", "soft": "#59626d",
    "faint": "#d9dce0", "wash": "#f2f3f1", "good": "#0b6e4f", "bad": "#a3260f",
    "learned0": "#0a5fb4", "learned1": "#00806b", "learned2": "#7b3fa0",
    "reference0": "#c07600", "reference1": "#8f5b00",
    "baseline0": "#7c8899", "baseline1": "#a09384", "baseline2": "#8fa39a",
    "baseline3": "#a78fa6", "baseline4": "#6f7f76", "baseline5": "#b5a99a",
    "single": "#c3c8ce", "level0": "#5a9bd5", "level1": "#f2b84b", "level2": "#dd6b20",
    "level3": "#8c1d18",
}  # fmt: skip
_DARK = {
    "page": "#14171a", "panel": "#1a1e22", "ink": "#e8eaec", "soft": "#a3acb6",
    "faint": "#363c43", "wash": "#20252a", "good": "#5fd0a5", "bad": "#ff8f78",
    "learned0": "#6cb4ff", "learned1": "#4fd1b8", "learned2": "#cf9bf0",
    "reference0": "#f0ae3c", "reference1": "#c99232",
    "baseline0": "#7d8a9b", "baseline1": "#94877a", "baseline2": "#7b9187",
    "baseline3": "#94809a", "baseline4": "#63736b", "baseline5": "#a89d90",
    "single": "#4b535c", "level0": "#4a8fd0", "level1": "#f4c667", "level2": "#ef7f37",
    "level3": "#d23c33",
}  # fmt: skip

_SHADES = {"learned": 3, "reference": 2, "baseline": 6}


def policy_classes(policies: Iterable[Policy]) -> dict[str, str]:
    """The CSS class that carries each policy's colour, by name; order decides, so keep it."""
    counts = dict.fromkeys(_SHADES, 0)
    classes = {}
    for policy in policies:
        kind = policy["kind"]
        classes[policy["name"]] = f"{kind} c-{kind}{counts[kind] % _SHADES[kind]}"
        counts[kind] += 1
    return classes


def style_sheet() -> str:
    """The whole style sheet: light, dark by the reader's preference, light again on paper."""
    classes = "".join(
        f".c-{kind}{i}{{--c:var(--{kind}{i})}}" for kind, n in _SHADES.items() for i in range(n)
    )
    return (
        f":root{{color-scheme:light dark;{_variables(_LIGHT)}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(_DARK)}}}}}\n"
        f"{classes}\n{_RULES}"
    )


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


_RULES = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--page);color:var(--ink);
 font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:1240px;margin:0 auto;padding:2.2rem 20px 3rem}
h1,h2,h3{line-height:1.2;margin:0;text-wrap:balance}
h1{font-size:1rem;font-weight:600;color:var(--soft)}
h2{font-size:1.3rem;letter-spacing:-.01em}
h3{font-size:.95rem;font-weight:600}
p{margin:.4rem 0;max-width:46rem}
section{margin-top:2.8rem;border-top:1px solid var(--faint);padding-top:1.1rem}
.verdict{font-size:clamp(1.35rem,1rem + 1.9vw,2.1rem);line-height:1.2;letter-spacing:-.018em;
 font-weight:650;max-width:54rem;margin:.5rem 0 .7rem;text-wrap:balance}
.note{color:var(--soft);font-size:.875rem}
.notes{list-style:none;padding:0;margin:.7rem 0 0}
.notes b{color:var(--ink);font-weight:600;margin-right:.3em}
.num,td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
dl.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(230px,1fr));
 gap:.8rem 2rem;margin:1rem 0 0}
dl.facts dt{color:var(--soft);font-size:.8rem}
dl.facts dd{margin:0;font-size:.925rem;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:1rem 0 0;-webkit-overflow-scrolling:touch}
.scroll:focus-visible,button:focus-visible{outline:2px solid var(--learned0);outline-offset:2px}
table{border-collapse:separate;border-spacing:0;font-size:.9rem;min-width:100%}
table.compact{min-width:0}
table.policies{font-size:.86rem}
th,td{padding:.45rem .5rem;text-align:left;vertical-align:top;
 border-bottom:1px solid var(--faint)}
th:last-child,td:last-child{padding-right:.3rem}
th:first-child{padding-left:.4rem}
thead th{vertical-align:bottom;font-weight:600;border-bottom:1.5px solid var(--ink);
 line-height:1.25}
tbody th{font-weight:600;white-space:nowrap}
th small,td small{display:block;font-weight:400;font-size:.84em;color:var(--soft);
 line-height:1.35}
table.policies thead th.n{min-width:4.4rem;white-space:normal}
th.n small{min-height:1em}
th.claim{white-space:normal;min-width:8.5rem;max-width:30rem}
th.span{text-align:left;padding-left:2.2rem}
table.compact td.n{padding-left:2.2rem;padding-right:.3rem}
td.range{color:var(--soft);font-size:.89em;font-variant-numeric:tabular-nums;white-space:nowrap;
 vertical-align:middle}
table.policies th:first-child{position:sticky;left:0;background:var(--page);z-index:1}
th button{all:unset;cursor:pointer;display:block;width:100%}
th button:hover{color:var(--learned0)}
th[aria-sort=ascending] button,th[aria-sort=descending] button{text-decoration:underline;
 text-underline-offset:.3em;text-decoration-thickness:2px}
th button span{color:var(--soft);font-weight:400}
td b{font-weight:700}
tr.learned th,tr.learned td{background:var(--wash)}
table.policies tr.learned th:first-child{background:var(--wash)}
.key{display:inline-block;width:.72em;height:.72em;border-radius:2px;background:var(--c);
 margin-right:.45em}
.reference .key{background:repeating-linear-gradient(45deg,var(--c) 0 2px,transparent 2px 4px);
 outline:1px solid var(--c);outline-offset:-1px}
.met{color:var(--good)}.unmet{color:var(--bad)}.met,.unmet{font-weight:600}
figure{margin:1.1rem 0 0;min-width:0}
figure>.note{margin:.15rem 0 .5rem}
.two>figure,.three>figure{display:grid;grid-row:span 3;grid-template-rows:subgrid;row-gap:0;
 align-content:start}
.three{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,320px),1fr));
 gap:0 30px}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,460px),1fr));
 gap:0 34px}
svg.chart{display:block;width:100%;height:auto;overflow:visible;font-family:inherit}
.narrow{display:none}
@media screen and (max-width:640px){.wide{display:none}.narrow{display:block}
 main{padding-left:16px;padding-right:16px}
 dl.facts{grid-template-columns:1fr 1fr;gap:.7rem 1.2rem}
 table{font-size:.82rem}th,td{padding:.4rem .35rem}
 th.span,table.compact td.n{padding-left:.9rem}}
svg text{font-size:12px;fill:var(--soft);font-variant-numeric:tabular-nums}
svg text.name{fill:var(--ink);font-size:12.5px}
svg text.value{fill:var(--ink)}
svg .learned text.name,svg .learned text.value,svg text.strong{font-weight:700}
svg text.line-name{fill:var(--c);font-weight:600;paint-order:stroke;stroke:var(--page);
 stroke-width:3px}
svg .baseline text.line-name{font-weight:400;fill:var(--soft)}
.grid{stroke:var(--faint);stroke-width:1;shape-rendering:crispEdges}
.axis{stroke:var(--soft);stroke-width:1;shape-rendering:crispEdges}
.bar{fill:var(--c)}
.reference .bar{fill:url(#hatch);stroke:var(--c);stroke-width:1}
.bar.second{opacity:.38}
.whisker{stroke:var(--ink);stroke-width:1.25;fill:none}
.curve{fill:none;stroke:var(--c);stroke-width:1.25;stroke-linejoin:round}
.learned .curve{stroke-width:2.5}
.reference .curve{stroke-width:2;stroke-dasharray:6 3}
.leader{stroke:var(--c);stroke-width:.75;fill:none;opacity:.8}
.seed{opacity:.38;stroke-width:1.25!important}
.selection{stroke-dasharray:1.5 3;stroke-width:1.5!important}
.rule{stroke:var(--c);stroke-width:1.25;stroke-dasharray:6 3}
.baseline .rule{stroke-dasharray:none;stroke-width:1}
.job{stroke:var(--page);stroke-width:.35}
.single{fill:var(--single)}
.level0{fill:var(--level0)}.level1{fill:var(--level1)}
.level2{fill:var(--level2)}.level3{fill:var(--level3)}
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.3rem;padding:0;
 margin:.5rem 0 .2rem;font-size:.875rem;color:var(--soft)}
ul.legend svg{width:.8em;height:.8em;margin-right:.45em;vertical-align:-.04em}
pre{background:var(--wash);padding:.8rem 1rem;overflow-x:auto;white-space:pre-wrap;
 overflow-wrap:anywhere;border-radius:4px;font:.875rem/1.5 ui-monospace,SFMono-Regular,Menlo,
 Consolas,"DejaVu Sans Mono",monospace}
footer{margin-top:2.5rem;color:var(--soft);font-size:.8rem}
@page{margin:14mm}
@media print{html{font-size:9.5pt}body{background:#fff;font-size:1rem;
 -webkit-print-color-adjust:exact;print-color-adjust:exact}
 main{max-width:none;padding:0}section{margin-top:1.4rem}
 figure,tr,dl.facts>div{break-inside:avoid}h2,h3{break-after:avoid}
 .scroll{overflow:visible}table,table.policies{font-size:6pt}th,td{padding:.2rem .22rem}
 table.policies thead th.n{min-width:0}table.policies th:first-child{background:none}
 .three{grid-template-columns:repeat(3,1fr)}.two{grid-template-columns:1fr 1fr}
}
"""
