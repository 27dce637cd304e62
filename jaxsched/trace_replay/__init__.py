"""Whole traces of rigid jobs replayed under a scheduling policy, as one jitted call.

A rigid job needs ``num_gpus`` GPUs for ``duration`` seconds, wherever they are. The rules:

**Cluster.** ``S`` servers of ``M`` GPUs each. Times are whole seconds. Jobs are numbered in order
of submission.

**Servers of different sizes** are kinds, numbered one kind after the other. With strict locality a
job runs on servers of one kind, by the rules below with the ``M`` of that kind: the first kind on
which it fits. Every kind has a largest job that may run on it: its own ``M`` unless told otherwise,
of the largest servers all that they have together. With locality ``any`` kinds play no part.

**GPUs of different types** make kinds as well. A job takes its run time over its speed on the type,
rounded up, and of the kinds on which it fits the first listed, or the one on which it runs fastest
(``Policy.type_choice``, ``gpu_types``). Orders go by run times as the table has them.

**CPUs and memory** of servers can be limited. Then free GPUs of a server count for a job as far as
what the server has left goes with them (``demands``).

**Shares of a GPU.** Where GPUs have slots, a job of one GPU may need but a part of it (column
``gpu_milli``), rounded up to slots: on one GPU, of a server's that suffice the one with the fewest
free slots. Jobs of whole GPUs need GPUs that are wholly free. Servers are compared by the free
slots that the job could use, a share's by those of the GPU that it would take (``shares``).

**Reservations** of servers are known beforehand: a job may start on a server only if, by the run
time that the policy knows, it ends by the beginning of the next one there (``windows``).

**An instant.** Completions come first, then arrivals, then scheduling: decisions are taken one
after the other, each on the state that the last one left, until there is none to take.

**What fits** (locality). ``strict``: a job of ``g <= M`` GPUs runs on one server; a larger one
takes ``g // M`` wholly free servers and the remainder, if any, on one further server. ``any``: a
job fits where enough GPUs are free.

**Where** (placement). A server for a job, or for the remainder of a large one: ``pack`` takes the
server with the fewest free GPUs that suffices, ``first_fit`` the first one that suffices,
``load_balance`` the one with the most free GPUs; ties go to the lowest index. ``fgd`` takes, for a
job that one server holds, the server of any kind, and for a share the GPU, where fragmentation
grows least (``fragmentation``); larger jobs go as under ``pack``. Wholly free servers
are taken from the lowest index on. With locality ``any``, servers are taken as by
``jaxsched.ops.packing.pack``.

**Which next** (order), see ``policies``; ties go to the lower job number.

**Mode** of the orders that never suspend a job. ``block``: the first waiting job in order starts,
or everything waits. ``skip``: the first in order that fits starts. ``easy`` (EASY backfilling;
Lifka, JSSPP'95): the first in order starts if it fits. Otherwise it is promised the earliest
time at which it will fit, server by server, if nobody else starts; the first in order that fits
now starts, if it ends by then or if the promised job would still fit at that time beside it.
With order ``fifo`` no promise is broken; with another a job that arrives later may come first.

``commit`` (RLTune's published environment, SoCC'25): the first in order is chosen once and waits
until it fits. Nobody overtakes it, and who arrives while it waits does not take its place, either.
There are no instants: while the chosen job does not fit, and while none waits, submissions and ends
happen one by one in order of their times, submissions before ends, and of ends those of the jobs
that started first. So of jobs that are submitted together the first is chosen before the others
have come.

**Estimates.** With ``run_times="estimates"`` orders and promises take estimates for run times. A
running job is expected to end at its start plus its estimate, and once it has outrun that, in the
next second. Decisions are taken at arrivals and completions only, not when an estimate has passed.
Estimates that no run time exceeds keep EASY's promises, since jobs can only end earlier.

**Headroom** (order ``spot``). Jobs of less than the largest priority of all start only if enough
GPUs stay free, or if all are free. With a forecast of the demand of the largest priority
(``demand``) that is as many as its running jobs do not hold yet, from decision to decision anew.

**Groups.** An ``isolated`` group starts a job only while it then holds no more GPUs than its quota.

**Suspension** (``policies.PREEMPTIVE``). Running and waiting jobs share one order. Who runs at an
instant is settled before anybody is suspended. A waiting job of ``g`` GPUs can run if it would fit,
were all running jobs that come after it in order (``spot``: those of a lower priority) gone. A
decision is about the first waiting job in order that can run (``skip``), or the first one, which
may not (``block``). If it fits and nothing else is settled yet, it starts. Otherwise it is chosen.
While it does not fit, one running job after it makes way: with locality ``any`` the last in order.
With ``strict``, one server is cleared after the other: it needs ``M`` GPUs of a server while fewer
than ``g // M`` servers are wholly free, then ``g mod M``. Of the servers that have fewer free, but
would have as many were the jobs after it gone, those with the most free GPUs count; of the jobs
after it on these, the last in order makes way. Its place is fixed then (with ``any``, the number of
its GPUs), and all that make way are asked in order whether their own GPUs are left over. Those keep
them: they never stop. The next decision is on what is left. A job that still makes way once
everybody before it in order is settled is suspended. At last the chosen jobs start.

A suspended job waits, keeps what it has done (with ``checkpoint_s``: up to the last of the
checkpoints that its run made at such intervals), and runs later on any servers, maybe at once;
being suspended adds ``restart_s`` to its remaining time, so that no job is resumed only to come
after others again. Besides arrivals and completions, a running job's change of queue is an instant
of decision, and a promotion.

**Victims.** With ``victims="waste"`` a job wastes its GPUs times what it would lose and need to
restart. Of those of the lowest priority the one that wastes least makes way, ties as above, on the
server that is the cheapest to clear: its jobs after the waiting one are added up in this order,
each with all that it wastes, until enough is free. Ties go to the most free GPUs, then to the
lowest index. Those that make way are asked by priority, then who wastes most.
"""

from jaxsched.trace_replay.cluster import Cluster
from jaxsched.trace_replay.named_policies import COMMITTED, FURTHER, POLICIES, SHARED, TYPED
from jaxsched.trace_replay.policies import Policy
from jaxsched.trace_replay.records import Records, summary
from jaxsched.trace_replay.replays import replay, replay_batch
from jaxsched.trace_replay.tables import from_trace

__all__ = [
    "COMMITTED",
    "FURTHER",
    "POLICIES",
    "SHARED",
    "TYPED",
    "Cluster",
    "Policy",
    "Records",
    "from_trace",
    "replay",
    "replay_batch",
    "summary",
]
