"""What could be gained, and who held which GPUs when."""

import jaxsched

room = jaxsched.headroom("sched2", traces="sched2-mixed", num_traces=2, num_jobs=40)
print(room)  # the rule, look-ahead over redrawn futures, clairvoyant look-ahead
page = jaxsched.replay(
    "sched2", policies=["strict_sif", "fifo"], traces="sched2-mixed", num_jobs=40
)
page.save("replay.html")
assert page._repr_html_().lstrip().startswith("<")
table = jaxsched.compare("sched2", policies=["strict_sif"], num_traces=1, num_jobs=40)
jobs = table.jobs()  # a data frame: submission, start, end, GPUs, servers of each job
assert {"policy", "episode", "job", "submit_time", "start_time", "end_time"} <= set(jobs.columns)
