"""What the observation's entries mean, for people who read a hand-over."""

from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.observation import DAY_S, INSTANCE_SCALE
from jaxsched.types import Feature


def features_of(env: DAS) -> dict[str, Feature]:
    """Meaning and unit of each kind of entry."""
    return {
        "position*.instances": Feature("instances of the job", "instances", INSTANCE_SCALE),
        "position*.gpus": Feature("of each instance", "GPUs", env.gpus_per_server),
        "position*.cpus": Feature("of each instance", "CPUs", env.cpus_per_server),
        "position*.memory": Feature("of each instance", "GB", env.mem_per_server),
        "position*.age": Feature("since submission", "s", DAY_S),
        "machine*.free_cpus": Feature("free", "CPUs", env.cpus_per_server),
        "machine*.free_gpus": Feature("free", "GPUs", env.gpus_per_server),
        "machine*.free_memory": Feature("free", "GB", env.mem_per_server),
        "machine*.free_bandwidth": Feature("not in use", "Gbps", env.bandwidth_per_server),
        "machine*.used_gpus": Feature("in use", "GPUs", env.gpus_per_server),
    }
