"""Colours of the HTML report; what they colour stands in ``templates/style.css``.

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

_KINDS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#7f7f7f")
"""Okabe and Ito's colours, which can be told apart without colour vision."""
_JOBS = (
    "#4477aa", "#ddaa33", "#228833", "#bb5566", "#66ccee", "#aa3377", "#999933", "#ee7733",
    "#117733", "#88ccee", "#882255", "#44aa99", "#cc6677", "#bbbbbb",
)  # fmt: skip
"""Paul Tol's bright and muted colours."""
_BEYOND = {"light": "#4a0d0a", "dark": "#a3201c"}  # of levels after the last

_LINES = {
    "light": ("#0072b2", "#d55e00", "#009e73", "#cc79a7"),
    "dark": ("#56b4e9", "#e69f00", "#2fc79b", "#cc79a7"),
}

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


def replay_colours() -> dict[str, dict[str, str | list[str]]]:
    """Colours of the replay page by name, for light and dark pages."""
    return {
        theme: {
            **{name: colours[name] for name in ("page", "panel", "ink", "soft", "faint", "wash")},
            "waiting": colours["single"],
            "jobs": list(_JOBS),
            "models": list(_KINDS),
            "lines": list(_LINES[theme]),
            "levels": [*(colours[f"level{i}"] for i in range(LEVELS)), _BEYOND[theme]],
        }
        for theme, colours in (("light", _LIGHT), ("dark", _DARK))
    }


def colour_sheet() -> str:
    """The colours as CSS: light, dark by the reader's preference, light again on paper."""
    classes = "".join(
        f".c-{kind}{i}{{--c:var(--{kind}{i})}}" for kind, n in _SHADES.items() for i in range(n)
    )
    return (
        f":root{{color-scheme:light dark;{_variables(_LIGHT)}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(_DARK)}}}}}\n"
        f"{classes}\n"
    )


def _variables(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())
