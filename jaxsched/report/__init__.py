"""Reports: one JSON-able `Comparison` in, a terminal table or a self-contained HTML page out.

Nothing here imports an environment, a learner or JAX.
"""

from jaxsched.report.html import render_html, write_html
from jaxsched.report.readable import in_readable_units
from jaxsched.report.schema import Comparison, check
from jaxsched.report.summary import Summary, Verdict
from jaxsched.report.tables import comparison_table, fitting_table, words_table

__all__ = [
    "Comparison",
    "Summary",
    "Verdict",
    "check",
    "comparison_table",
    "fitting_table",
    "in_readable_units",
    "render_html",
    "words_table",
    "write_html",
]
