"""Train SCHED2 from a script: the same recipe, loop and comparison as ``jaxsched train sched2``.

    python examples/train_sched2.py [--preset quick] [--updates 2500] [--seed 0] [--out runs/mine]

Prints the score on the validation traces while it learns, then the result on the test traces beside
the paper's baselines and the best rule known.
"""

import argparse

import jaxsched

RULES = ["fifo", "sif", "dsif", "saf", "lrf", "spf", "strict_sif"]


def main() -> None:
    """Train, then compare with the rules."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="quick", help="the recipe; search is the best one")
    parser.add_argument("--updates", type=int, help="updates; those of the preset by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", help="run directory; none is kept by default")
    given = parser.parse_args()

    changes = {"loop.num_updates": given.updates} if given.updates else {}
    training = jaxsched.training(
        "sched2", preset=given.preset, seed=given.seed, out=given.out, set=changes
    )
    for progress in training:
        if progress.score is not None:
            steps = f"{progress.env_steps:>11,} steps  {progress.steps_per_s:>9,.0f} steps/s"
            print(f"{steps}  score {progress.score:.4f}", flush=True)
    run = training.finish()
    print(jaxsched.compare("sched2", policies=[*RULES, run]))


if __name__ == "__main__":
    main()
