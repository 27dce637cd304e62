"""From rigid jobs, as traces with only a number of GPUs have them, to jobs of tasks.

Source: MLFS (CoNEXT '20); specification, section 11 ("real trace").
"""

import numpy as np

from jaxsched.envs.mlfs.jobs import MODELS, SIZES, TASK_JOBS, as_rigid
from jaxsched.envs.mlfs.workload import BRANCH, LEAST_ITERATIONS, MOST_ITERATIONS, draw_jobs
from jaxsched.jobs import JobTable
from jaxsched.jobs.draws import generator

_MAPPING = 2**31  # the place of these draws in the generator's tree, beyond that of any table


def task_jobs(table: JobTable, *, seed: int = 0, uniform_gpus: bool = True) -> JobTable:
    """Jobs of tasks of a table of rigid ones.

    Submission times stay; iterations are chosen so that a job on an idle cluster runs as long as
    in the trace, as far as 3 to 200 of them reach. Models and all else are drawn as in the
    generator.

    Args:
      table: ``submit_time``, ``duration`` and ``num_gpus``; its models are not used.
      seed: of the draws, a whole number from 0 on.
      uniform_gpus: draw the numbers of GPUs, all sizes alike, as the paper does for 80 GPUs; else
        round the trace's up to the next size, at most 32.

    Raises:
      JaxschedError: the seed is not a whole number from 0 on.
    """
    shapes, jobs = (generator(seed, BRANCH, _MAPPING, part) for part in range(2))
    num_jobs, asked = len(table), table["num_gpus"]
    model = shapes.integers(len(MODELS), size=num_jobs)
    if uniform_gpus:
        num_gpus = shapes.choice(SIZES, num_jobs)
        changes = {"numbers of GPUs drawn at random": True}
    else:
        size = np.minimum(np.searchsorted(SIZES, asked), len(SIZES) - 1)
        num_gpus = np.array(SIZES)[size]
        raised, capped = int(np.sum(num_gpus > asked)), int(np.sum(asked > SIZES[-1]))
        changes = {
            f"{raised} numbers of GPUs rounded up": raised > 0,
            f"{capped} jobs capped at {SIZES[-1]} GPUs": capped > 0,
        }
    columns = draw_jobs(
        jobs,
        submit_s=table["submit_time"],
        model=model,
        num_gpus=num_gpus,
        minutes=table["duration"] / 60,
    )
    mapped = JobTable(columns, table.name, schema=TASK_JOBS)
    planned, iterations = as_rigid(mapped)["duration"], mapped["iterations"]
    longer = int(np.sum((iterations == LEAST_ITERATIONS) & (planned > table["duration"])))
    shorter = int(np.sum((iterations == MOST_ITERATIONS) & (planned < table["duration"])))
    changes[f"{longer} run times raised to those of {LEAST_ITERATIONS} iterations"] = longer > 0
    changes[f"{shorter} run times lowered to those of {MOST_ITERATIONS} iterations"] = shorter > 0
    notes = [*table.notes, "tasks, models, accuracy and deadlines drawn at random"]
    notes += [note for note, happened in changes.items() if happened]
    return JobTable(mapped.columns, mapped.name, tuple(notes), TASK_JOBS)
