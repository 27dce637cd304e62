"""An operator's log as a data frame: which rule suits my cluster?"""

import numpy as np
import pandas as pd

import jaxsched

draw = np.random.default_rng(0)
start = pd.Timestamp("2026-03-01T08:00:00Z")
log = pd.DataFrame(
    {
        "Submitted": start + pd.to_timedelta(np.cumsum(draw.exponential(500, 600)), unit="s"),
        "AllocGPUs": draw.choice([1, 1, 1, 2, 4, 8], 600),
        "Elapsed": draw.lognormal(8, 1.2, 600).round() + 60,
        "Partition": "main",
    }
)
traces = jaxsched.traces.load(
    log, columns={"Submitted": "submit_time", "AllocGPUs": "num_gpus", "Elapsed": "duration"}
)
print(traces.notes)  # what was left out, guessed, raised, capped

table = jaxsched.compare(
    "sched2", traces=traces, num_servers=4, load=0.9, num_traces=10, num_jobs=100
)
best = table.best  # the name of the first row
assert best in set(table.to_pandas()["policy"])
assert table.facts["load"] == 0.9 and table.facts["servers"] == "4 x 8 GPUs"
