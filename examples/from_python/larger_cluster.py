"""A policy trained on 4 servers plays 16, which have four times as many jobs to choose from."""

import jaxsched

run = jaxsched.train(
    "cluster",
    preset="quick",
    seed=0,
    servers="4x8",
    set={"loop.num_updates": 4, "evaluate_every": 4},
)
for servers, window, jobs in (("4x8", 32, 100), ("16x8", 128, 400)):
    table = jaxsched.compare(
        "cluster",
        policies=["fifo-skip", "sjf", run],
        servers=servers,
        set={"env.window": window},
        traces="philly-like",
        load=0.9,
        num_jobs=jobs,
        num_traces=4,
    )
    print(table)
