"""The observation's entries in words, for the hand-over to other programs (section 4)."""

from jaxsched.envs.mlfs.environment import MLFS
from jaxsched.envs.mlfs.jobs import MODELS
from jaxsched.envs.mlfs.observation import DAY_MIN
from jaxsched.jobs.models import identifier
from jaxsched.types import Feature

PM = 1000.0
DAY = float(DAY_MIN)


def features_of(env: MLFS) -> dict[str, Feature]:
    """What each kind of entry means, by its name with ``*`` for every number."""
    models = {f"task.is_{identifier(name)}": Feature(f"1 for {name}", "1") for name in MODELS}
    return {**_cluster(env), **models, **_task(env), **_server()}


def _cluster(env: MLFS) -> dict[str, Feature]:
    return {
        "cluster.time": Feature("since the start", "slots", DAY),
        "cluster.active": Feature("jobs in the window", "jobs", float(env.max_active)),
        "cluster.waiting": Feature("tasks that could run", "tasks", 1000.0),
        "cluster.running": Feature("tasks that run, migrants included", "tasks", 1000.0),
        "cluster.busy": Feature("1 if tasks waited or servers were full in the last slot", "1"),
        "cluster.gpu_use": Feature("mean load of the servers' GPUs", "pm", PM),
        "cluster.offers": Feature("decisions in this slot so far", "1", float(env.max_offers)),
        "cluster.outside": Feature("submitted jobs beyond the window", "jobs", 1000.0),
    }


def _task(env: MLFS) -> dict[str, Feature]:
    layers, tasks = 16.0, 32.0
    entries = {
        "num_gpus": Feature("tasks of the job", "tasks", tasks),
        "urgency": Feature("of the job, 1 to 10", "1", 10.0),
        "iteration": Feature("share of the job's iterations begun", "1"),
        "iterations_left": Feature("iterations to the limit, this one included", "1", 200.0),
        "loss_share": Feature("loss reduction of the last iteration over all so far", "pm", PM),
        "size": Feature("share of the model's parameters", "pm", PM),
        "work": Feature("of the task in an iteration at full speed", "1/1000 min", 10_000.0),
        "work_left": Feature("of it that is not done", "1/1000 min", 10_000.0),
        "layer": Feature("of the task in the job's graph", "1", layers),
        "layers": Feature("of the job's graph", "1", layers),
        "descendants": Feature("tasks of lower layers", "tasks", tasks),
        "children": Feature("tasks that wait for this one", "tasks", tasks),
        "waited": Feature("slots since it could run, 0 for a migrant", "slots", DAY),
        "time_left": Feature(
            "until the latest finish that still meets the deadline, within a week", "slots", DAY
        ),
        "job_left": Feature("work left of the whole job", "task-minutes", DAY),
        "gpu_demand": Feature("of one GPU", "pm", PM),
        "cpu_demand": Feature(f"of {env.cpus_per_server} CPUs", "pm", PM),
        "mem_demand": Feature(f"of {env.mem_per_server} GB", "pm", PM),
        "migrant": Feature("1 if it runs on an overloaded server", "1"),
        "priority": Feature("of the order in which tasks are offered", "1", 1e6),
        "communication": Feature("of the task in an iteration", "MB", 10_000.0),
    }
    return {f"task.{name}": feature for name, feature in entries.items()}


def _server() -> dict[str, Feature]:
    entries = {
        "gpu_use": Feature("mean load of its GPUs", "pm", PM),
        "cpu_use": Feature("load of its CPUs", "pm", PM),
        "mem_use": Feature("memory in use", "pm", PM),
        "bandwidth_use": Feature("load of its link", "pm", PM),
        "least_gpu": Feature("load of the least loaded GPU", "pm", PM),
        "most_gpu": Feature("load of the most loaded GPU", "pm", PM),
        "local_share": Feature("communication of the task that would stay here", "pm", PM),
        "moves": Feature("1 if the task ran elsewhere last", "1"),
        "not_overloaded": Feature("1 if no resource is overloaded", "1"),
        "valid": Feature("1 if it can take the task", "1"),
    }
    return {f"server*.{name}": feature for name, feature in entries.items()}
