"""What Chic's text leaves open, each reading learnt by the paper's own method.

    python -m benchmarks.chic_readings [--readings "as written;one resource"] [--seeds 5]
        [--updates 400] [--json FILE]

Trains the preset ``paper`` on ``chic-1.80`` under each reading, seeds side by side, plays 30
validation sequences every 10 updates and keeps each seed's weights of least completion time there.
A seed ends after 60 updates without a gain, as in the paper (which validates every second). These,
and the untrained networks, then play 100 sequences that nothing was chosen on, once, beside
``optimus``, ``search``, ``random`` and ``pretrained`` (the checkpoint of our recipe, ``--preset
search``). With ``--json`` what the file has already is not run again.

The list was written before any of it was run; all else is as the paper has it:

as written           a phase ends where no unit fits (the words of condition 1) or none makes
                     anything faster, and in no other way: void changes nothing. Penalties 5 and 1.
void ends            what the preset has: void ends the phase as well.
one resource         condition 1 as Equation 4 is printed ("exists k"): a phase ends as soon as one
                     resource is used up. Optimus has the same words.
weights 1            p1 = p2 = 1: the paper gives signs of the penalties and no sizes.
ten steps            Equation 9 is an arg max; it is solved by ten gradient steps, not by one.
one resource, ...    the same with condition 1 as printed: ``weights 1``, ``ten steps``, and both.
                     ``masked``: units that do not fit and empty rows cannot be chosen;
                     ``unpenalised``: p1 = p2 = 0. These two are changes of the text, to see what
                     penalties do.

Added after these had been run:

once                 p1 is paid for a phase's first choice of an empty row only.
one resource, once   both.
"""

import sys

from benchmarks import readings
from benchmarks.chic_recipe import INERT, TEN, TRAIN, VALIDATION
from benchmarks.readings import Draw, Study
from benchmarks.scripts import exit_status

ONE = ("env.void_outside=inert", "env.stop_on_one=true", "loop.rollout_length=3072")
ONES = ("params.p1=1", "params.p2=1")
STUDY = Study(
    command="chic_readings",
    system="chic",
    preset="paper",
    readings={
        "as written": INERT,
        "void ends": (),
        "one resource": ONE,
        "weights 1": (*INERT, *ONES),
        "ten steps": (*INERT, *TEN),
        "one resource, weights 1": (*ONE, *ONES),
        "one resource, ten steps": (*ONE, *TEN),
        "one resource, weights 1, ten steps": (*ONE, *ONES, *TEN),
        "one resource, masked": (*ONE, "env.free_choice=false"),
        "one resource, unpenalised": (*ONE, "params.p1=0", "params.p2=0"),
        "once": (*INERT, "env.penalty_once=true"),
        "one resource, once": (*ONE, "env.penalty_once=true"),
    },
    train=TRAIN,
    validation=VALIDATION,
    test=Draw("chic-1.80", 5011, 100),
    others=("optimus", "search", "random", "pretrained"),
    ours="pretrained",
    metrics=("avg_jct", "max_jct", "makespan", "missed", "steps"),
    shown="avg_jct",
    updates=400,
    every=10,
    patience=60,
    watched=("missed",),
    worlds={"1.8": {}},
)


def main() -> None:
    """Train and play what the file does not have yet."""
    readings.run(STUDY, __doc__)


if __name__ == "__main__":
    sys.exit(exit_status(main))
