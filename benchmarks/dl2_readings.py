"""What DL2's text leaves open about its learner, each reading learnt on 60 servers.

    python -m benchmarks.dl2_readings [--readings "paper;by task"] [--seeds 5] [--updates 2000]
        [--json FILE]

Trains the preset ``paper`` on the 100 training sequences under each reading, seeds side by side,
both stages, plays 20 validation sequences every 500 updates of the second and keeps each seed's
weights of least completion time there, the supervised ones among them. These, and the supervised
ones, then play 100 sequences that nothing was chosen on, once, beside rules, ``pretrained`` (the
checkpoint of our recipe, ``--preset search``) and untrained networks. With ``--json`` what the file
has already is not run again.

The list was written before any of it was run; all else is as in ``paper``:

paper              what the paper tells: Equation 1 paid once per slot, discount 0.9 per slot.
by task            a bundle of the teacher is labelled as a worker and then a parameter server.
hundreds           300 supervised updates at the rate of 0.005.
entropy summed     the entropy is the sum over the actions.
slot alone         discount 0: what a slot pays and no more, as in the published code.
full memory        no gradient step before the replay is full, as in the published code.
step per slot      one environment, a gradient step for each slot.
faster critic      the value's rate is 0.001; the text has one rate, 0.0001, for what it calls the
                   neural network.
fastest critic     the value's rate is 0.005, that of supervised learning.
together           by task, full memory, faster critic.

Added after these had been run, to have the text's numbers all in one:

as written         hundreds, and a step per slot.
as written, entropy summed

Not readings, but what they are compared with to find the cause:

normalised         advantages of a batch have mean 0 and deviation 1.
epochs             a slot pays the epochs trained in it.
epochs, slot alone
own job            the paper's ablation (29.1 % worse there): each inference is paid its own job's
                   share.
"""

import sys

from benchmarks import readings
from benchmarks.readings import NEW, SUPERVISED, Draw, Study
from benchmarks.scripts import exit_status

BY_TASK, FULL = "supervised.data.by_task=true", "learner.fill_first=true"
SLOT_ALONE, EPOCHS = "learner.gamma=0", "wrap.unit=slot_epochs"
FASTER = "learner.value_learning_rate=0.001"
HUNDREDS = (
    "supervised.loop.num_updates=300",
    "supervised.learner.learning_rate=0.005",
    "supervised.learner.final_learning_rate=0.005",
)
STEP_PER_SLOT = ("loop.num_envs=1", "loop.rollout_length=96", "learner.step_per=group")
SUMMED = "learner.entropy_per_action=false"
STUDY = Study(
    command="dl2_readings",
    system="dl2",
    preset="paper",
    readings={
        "paper": (),
        "by task": (BY_TASK,),
        "hundreds": HUNDREDS,
        "entropy summed": (SUMMED,),
        "slot alone": (SLOT_ALONE,),
        "full memory": (FULL,),
        "step per slot": STEP_PER_SLOT,
        "faster critic": (FASTER,),
        "fastest critic": ("learner.value_learning_rate=0.005",),
        "together": (BY_TASK, FULL, FASTER),
        "normalised": ("learner.normalise_advantages=true",),
        "epochs": (EPOCHS,),
        "epochs, slot alone": (EPOCHS, SLOT_ALONE),
        "own job": ("wrap.unit=own",),
        "as written": (*HUNDREDS, *STEP_PER_SLOT),
        "as written, entropy summed": (*HUNDREDS, *STEP_PER_SLOT, SUMMED),
    },
    train=Draw("dl2-sim", 0, 100),
    validation=Draw("dl2-sim", 2, 20),
    test=Draw("dl2-sim", 40506, 100),
    others=("drf", "fifo", "tetris", "optimus", "probe", "pretrained", NEW),
    ours="pretrained",
    metrics=("avg_jct_slots", "makespan"),
    shown="avg_jct_slots",
    updates=2000,
    every=500,
    patience=2000,
    worlds={"60 servers": {"num_servers": 60}},
    start=SUPERVISED,
)


def main() -> None:
    """Train and play what the file does not have yet."""
    readings.run(STUDY, __doc__)


if __name__ == "__main__":
    sys.exit(exit_status(main))
