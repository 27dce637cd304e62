"""Settings of the documentation; ``make docs`` builds it into ``docs/_build/html``."""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent)]
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jaxsched  # noqa: E402 - the checkout's, found by the line above

project = "jaxsched"
author = copyright = "The jaxsched authors"
version = release = jaxsched.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "references",
    "menu",
    "system_tables",
    "pictures",
    "notebook",
]
exclude_patterns = ["_build", "_ext"]
suppress_warnings = [
    "toc.empty_glob",  # pages of extras that a checkout may lack
    "misc.highlighting_failure",  # requests of several lines in console blocks
]
nitpicky = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

toc_object_entries = False  # thousands of names in every page's navigation
# Other projects that modules are made for; they need not be there.
autodoc_mock_imports = [
    name
    for name in ("dm_env", "gymnasium", "pettingzoo", "stable_baselines3", "sb3_contrib")
    if find_spec(name) is None
]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = f"jaxsched {release}"
html_static_path = ["_static"]
html_css_files = ["jaxsched.css"]
html_show_sphinx = False
html_copy_source = False
# Fonts of the reader's machine; furo asks for none of its own.
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5fa8", "color-brand-content": "#1f5fa8"},
    "dark_css_variables": {"color-brand-primary": "#7db4f0", "color-brand-content": "#7db4f0"},
}
