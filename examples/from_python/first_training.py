"""Train, compare, look: what the README begins with, with fewer updates and traces."""

import jaxsched

run = jaxsched.train("sched2", preset="search", seed=0, out="runs/a", set={"loop.num_updates": 2})
table = jaxsched.compare(
    "sched2", policies=["fifo", "strict_sif", run], traces="sched2-mixed", num_traces=20
)

print(table)  # one row a policy: means with their intervals, best first
frame = table.to_pandas()  # one row a policy and episode
assert {"policy", "episode", "avg_effectiveness", "avg_jct"} <= set(frame.columns)
assert len(frame) == 3 * 20
table.save("report.html")
table.save("bars.svg")
table.save("comparison.json")
