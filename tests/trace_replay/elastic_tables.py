"""Small measurements in the format of Pollux' simulator, written for tests."""

from pathlib import Path

from jaxsched.trace_replay.goodput import Application, read_applications


def write(
    folder: Path,
    name: str,
    *,
    steps: dict[str, tuple[float, float]],
    runs: dict[int, list[tuple[float, float, float]]],
) -> None:
    """One application.

    Args:
      folder: of all applications.
      name: of this one.
      steps: placement, such as ``42`` -> seconds of a step at batches of 4 and of 8 samples for a
        GPU, of which a tenth is synchronisation.
      runs: batch size -> progress, square and variance of each epoch.
    """
    own = folder / name
    own.mkdir(parents=True)
    placed = [
        f"{code},{size},{time},{time / 10}"
        for code, times in steps.items()
        for size, time in zip((4, 8), times, strict=True)
    ]
    head = "placement,local_bsz,step_time,sync_time"
    (own / "placements.csv").write_text("\n".join([head, *placed]) + "\n")
    spread = [f"{nodes},{4 * nodes},{size},9,1" for nodes in (6, 16) for size in (4, 8)]
    head = "num_nodes,num_replicas,local_bsz,step_time,sync_time"
    (own / "scalability.csv").write_text("\n".join([head, *spread]) + "\n")
    for batch, epochs in runs.items():
        rows = [f"{done},1,0.5,{square},{variance}" for done, square, variance in epochs]
        head = "progress,iteration,metric,grad_sqr,grad_var"
        (own / f"validation-{batch}.csv").write_text("\n".join([head, *rows]) + "\n")


EVERY = ("1", "2", "3", "4", "11", "12", "13", "14", "22", "23", "24", "33", "34", "44")


def steady(folder: Path, speeds: dict[str, float], work: float) -> dict[str, Application]:
    """Applications of one epoch that make a step in so many seconds wherever they run."""
    for name, seconds in speeds.items():
        steps = dict.fromkeys(EVERY, (seconds, seconds))
        run = [(work, 1.0, 0.0)]
        write(folder, name, steps=steps, runs={8: run, 32: run})
    return read_applications(folder)
