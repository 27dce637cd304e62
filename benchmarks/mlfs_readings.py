"""What MLFS' text leaves open in Equations 2 to 6: every reading on the same workloads.

    python -m benchmarks.mlfs_readings [--draws 12] [--loads 3] [--seed 9100] [--json FILE]
    python -m benchmarks.mlfs_readings --only mixed,days --rules --loads 1,2,3 --draws 100

The equations (specification, section 3.1) have printed weights (alpha .3, gamma .8, .3, .3 and
.35) and no units: importance is urgency x loss ratio x size / iteration, a number without a unit;
Equation 4 adds 1 / (d - t), 1 / r and w, that is 1 / time, 1 / time and time. MLF-H plays each
reading with these weights and nothing else changed. The list was written before any of it was run:

units       all of Equation 4 in one unit of time, the only reading without a constant of ours:
            ``seconds``, ``minutes``, ``hours``, ``days``. Or ``mixed``, what this project had:
            hours, tens of task-hours for r, hours; and ``mixed, wait in days``.
r           "remaining time": of the job, as work of all its tasks (``job's work``) or as the time
            that it takes on an idle cluster (``job's path``); or of the task, the work of this
            instance (``task's run``) or of all its runs to come (``task's runs``).
normalised  each term of Equation 4, and importance, over the largest among the waiting tasks
            (``over the queue``), so that no units are left.
d           of the task (the latest finish that allows the rest, as in the text) or
            ``job's deadline``; after it the term is 0, or negative as it is printed
            (``negative when late``).
size        the share of the model's parameters, or megabytes (``megabytes``: share x what a root
            sends the parameter server, 50 to 100 MB). Samples: every task of a job sees the same
            number of samples, so size in samples is 1 (``no size``).

All units meet all four r; d, size and late are changed one at a time in the two readings of least
completion time. Asked for is Figure 4's order: MLF-H before Graphene, Tiresias, HyperSched and
Gandiva, these before fair (TensorFlow), that before SLAQ in completion time, and MLF-H before all
of them in deadlines met and in accuracy at the deadline. The order among baselines does not depend
on the reading. The chosen one is confirmed once, on draws of another seed.

Intervals are 95 % bootstraps over workloads. Axis: ``E`` workloads.
"""
