"""What the observation's entries mean, for people who read a hand-over."""

from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.observation import DAY_S, INSTANCE_SCALE
from jaxsched.envs.das.simulator.owners import ESTIMATE_NAMES, LOG2_SCALE
from jaxsched.types import Feature


def features_of(env: DAS) -> dict[str, Feature]:
    """Meaning and unit of each kind of entry."""
    estimates = (
        Feature("estimated run time, from its group", "log2 of s", LOG2_SCALE),
        Feature("estimated run time, from its user", "log2 of s", LOG2_SCALE),
        Feature("n / (n + 1) of n finished jobs of its group", "", 1.0),
        Feature("n / (n + 1) of n finished jobs of its user", "", 1.0),
    )
    named = zip(ESTIMATE_NAMES, estimates, strict=True) if env.estimates else ()
    return {
        **{f"position*.{name}": feature for name, feature in named},
        "position*.instances": Feature("instances of the job", "instances", INSTANCE_SCALE),
        "position*.gpus": Feature("of each instance", "GPUs", env.gpus_per_server),
        "position*.cpus": Feature("of each instance", "CPUs", env.cpus_per_server),
        "position*.memory": Feature("of each instance", "GB", env.mem_per_server),
        "position*.waiting": Feature("whether the position holds a waiting job", "1 or 0"),
        "position*.number": Feature("place of the job in the episode", ""),
        "position*.age": Feature("since submission", "s", DAY_S),
        "machine*.free_cpus": Feature("free", "CPUs", env.cpus_per_server),
        "machine*.free_gpus": Feature("free", "GPUs", env.gpus_per_server),
        "machine*.free_memory": Feature("free", "GB", env.mem_per_server),
        "machine*.free_bandwidth": Feature("not in use", "Gbps", env.bandwidth_per_server),
        "machine*.used_gpus": Feature("in use", "GPUs", env.gpus_per_server),
    }
