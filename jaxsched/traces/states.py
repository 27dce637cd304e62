"""What schedulers call the states of jobs, and how a trace calls them."""

SLURM = {
    "COMPLETED": "completed",
    "CANCELLED": "killed",
    "PREEMPTED": "killed",
    "REVOKED": "killed",
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "OUT_OF_MEMORY": "failed",
    "NODE_FAIL": "failed",
    "BOOT_FAIL": "failed",
    "DEADLINE": "failed",
    "LAUNCH_FAILED": "failed",
    "RECONFIG_FAIL": "failed",
    "SPECIAL_EXIT": "failed",
    "RUNNING": "running",
    "COMPLETING": "running",
    "CONFIGURING": "running",
    "POWER_UP_NODE": "running",
    "RESIZING": "running",
    "SIGNALING": "running",
    "STAGE_OUT": "running",
    "STOPPED": "running",
    "SUSPENDED": "running",
    "PENDING": "pending",
    "REQUEUED": "pending",
    "REQUEUE_FED": "pending",
    "REQUEUE_HOLD": "pending",
    "RESV_DEL_HOLD": "pending",
}
"""Slurm's states, as ``sacct(1)`` lists them."""

_OTHERS = {
    "completed": ("complete", "pass", "passed", "succeeded", "success", "successful", "terminated",
                  "done", "finished", "ok"),
    "killed": ("killed", "canceled", "stopped by user", "aborted", "evicted", "deleted"),
    "failed": ("fail", "failure", "error", "errored", "crashed", "oom", "oomkilled", "timedout"),
    "running": ("run", "active", "started"),
    "pending": ("waiting", "queued", "submitted", "created", "held", "hold"),
}  # fmt: skip
_BY_WORD = {state.lower(): called for state, called in SLURM.items()}
_BY_WORD |= {word: called for called, words in _OTHERS.items() for word in words}


def status_of(word: str) -> str | None:
    """How a trace calls a state of any scheduler, in letters of any size; None: no such state.

    What follows the first word, such as in Slurm's ``CANCELLED by 1000``, does not count.
    """
    text = word.strip().lower()
    return _BY_WORD.get(text) or _BY_WORD.get(text.split(" ", 1)[0])
