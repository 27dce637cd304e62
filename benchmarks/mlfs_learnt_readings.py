"""What MLFS' text leaves open about its learner, each reading learnt on 20 GPUs.

    python -m benchmarks.mlfs_learnt_readings [--readings "plan;server choice"] [--seeds 5]
        [--updates 60] [--json FILE]

Trains under each reading on 128 workloads of load x = 3, seeds side by side, plays eight validation
workloads every 20 updates and keeps each seed's weights of least completion time there, those of
the beginning among them. These, and those of the beginning, then play 100 workloads that nothing
was chosen on, once, beside rules and ``pretrained`` (the checkpoint of our recipe, ``--preset
search``). With ``--json`` what the file has already is not run again.

The list was written before any of it was run, *pair by pair* after the others. *server choice*
is the preset ``paper``, both *pair by pair* ``plan-pairs``, all others are the preset ``plan`` with
one thing changed; trainings are of 60 updates (``paper`` has 200, ``plan`` 100), for want of time:

server choice      imitation of MLF-H, then a network chooses the server of one task after another.
plan               the action is the plan of a slot; begins as MLF-H.
pair by pair       its plans are drawn pair by pair (Plackett-Luce), not by their weights.
random start       the plan's weights begin at random: schedules at random, as the text has it.
pair by pair, random start
                   both.
all jobs           Equation 7 over all jobs in the system, not those alone that finish.
time, deadlines, traffic, targets, accuracy
                   Equation 7 with one weight alone, 1, and the others 0.
equal              Equation 7 with all five weights 1.

The printed weights (beta) are 0.5, 0.55, 0.25, 0.15 and 0.15; the text says that they are
searched, and the last six are our search.
"""

import sys

from benchmarks import readings
from benchmarks.readings import Draw, Study
from benchmarks.scripts import exit_status

BETAS = {
    "time": "completion_reward",
    "deadlines": "deadline_reward",
    "traffic": "traffic_cost",
    "targets": "target_reward",
    "accuracy": "accuracy_reward",
}
CHOICE, BY_PAIR = "server choice", "pair by pair"
RANDOM = "random start"
PAIRS_RANDOM = f"{BY_PAIR}, {RANDOM}"
AT_RANDOM = ("network_options.start_std=1",)


def alone(name: str) -> tuple[str, ...]:
    """Equation 7 with one weight."""
    return tuple(f"params.{weight}={float(one == name)}" for one, weight in BETAS.items())


STUDY = Study(
    command="mlfs_learnt_readings",
    system="mlfs",
    preset="plan",
    presets={CHOICE: "paper", BY_PAIR: "plan-pairs", PAIRS_RANDOM: "plan-pairs"},
    readings={
        CHOICE: (),
        "plan": (),
        BY_PAIR: (),
        RANDOM: AT_RANDOM,
        PAIRS_RANDOM: AT_RANDOM,
        "all jobs": ("env.reward=standing",),
        **{name: alone(name) for name in BETAS},
        "equal": tuple(f"params.{weight}=1" for weight in BETAS.values()),
    },
    train=Draw("mlfs-small-x3", 0, 128),
    validation=Draw("mlfs-small-x3", 1, 8),
    test=Draw("mlfs-small-x3", 9203, 100),
    others=("mlf_h", "graphene", "linear_tuned", "pretrained"),
    ours="pretrained",
    metrics=("avg_jct", "deadline_ratio", "accuracy_ratio", "bandwidth_mb"),
    shown="avg_jct",
    updates=60,
    every=20,
    patience=60,
    watched=("return",),
    worlds={"x = 3": {}},
    start=", at the start",
)


def main() -> None:
    """Train and play what the file does not have yet."""
    readings.run(STUDY, __doc__)


if __name__ == "__main__":
    sys.exit(exit_status(main))
