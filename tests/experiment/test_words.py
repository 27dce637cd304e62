"""The arguments of Python calls are the options of the commands."""

import inspect

import pytest
import typer

import jaxsched
from jaxsched.cli.commands import build_app
from jaxsched.experiment.training import training

RENAMED = {"trace": "traces", "test_trace": "test_traces", "policy": "policies"}
RENAMED |= {"option": "options", "format": "formats"}
PROCESSES = {"coordinator", "num_processes", "process_id"}
"""A script meets other processes by ``jax.distributed``."""
EVERYWHERE = {"help", "config", "quiet"}
"""Calls are quiet, and take their arguments from a mapping by ``**``."""
SAVED = {"json", "html", "plot", "jobs"}
"""The results save themselves."""
ELSEWHERE = {
    "advise": {"json"},  # ``save`` writes it
    "train": PROCESSES | {"stop_on"},  # signals are the script's own
    "sweep": PROCESSES | {"stop_on", "max_time"},  # a stopped sweep has no result to return
    "compare": PROCESSES | SAVED | {"checkpoint"},  # among the policies
    "evaluate": PROCESSES | SAVED,
    "headroom": SAVED,
    "replay": SAVED | {"subject", "env"},  # traces or policies; an old spelling
    "export": {"source", "policy", "option", "out"},  # old spellings; ``policy`` and ``folder``
}
CALLS = {"train": training, "evaluate": jaxsched.compare}


@pytest.mark.parametrize("command", ELSEWHERE)
def test_every_option_is_an_argument(command):
    call = CALLS.get(command) or getattr(jaxsched, command)
    arguments = inspect.signature(call).parameters
    for parameter in typer.main.get_command(build_app()).commands[command].params:
        word = parameter.opts[0].lstrip("-").replace("-", "_")
        if word in EVERYWHERE | ELSEWHERE[command]:
            assert word not in arguments or word == "policy", word
            continue
        assert word in arguments or RENAMED.get(word) in arguments, word
