"""Loading runs and trained policies: ``jaxsched.load``."""

from os import PathLike
from pathlib import Path
from typing import Any

from jaxsched.errors import JaxschedError
from jaxsched.experiment.own import with_network
from jaxsched.experiment.plans import facts_of_run
from jaxsched.experiment.run import Run
from jaxsched.experiment.trained import TrainedPolicy
from jaxsched.runs import checkpoints, saved_policies, trainer
from jaxsched.runs.directory import RunDirectory
from jaxsched.runs.policies import Named, find
from jaxsched.runs.trained import Point
from jaxsched.systems.system import System


def load(word: str | PathLike[str], *, network: Any = None) -> Run | TrainedPolicy:
    """Load a run, or a trained policy.

    Args:
      word: a run directory, a ``policies/seedN`` folder in one, a hand-over folder, or
        ``SYSTEM/pretrained``.
      network: the module, where the run trained a network of one's own; its weights are in the
        run directory, its code is not.

    Returns:
      A ``Run`` for a run directory, else the policy.

    Raises:
      JaxschedError: nothing there, a rule, of another behaviour version, or without its network.
    """
    named = find(str(word))
    if named.rule:
        raise JaxschedError(
            f"{word}: is a rule; accepted: a run, a hand-over folder or SYSTEM/pretrained"
        )
    path = Path(named.place)
    is_run = (path / "config.json").is_file()
    config = RunDirectory.open(path).config if is_run else {}
    named = named._replace(system=_knowing(named.system, config, network, path))
    if is_run:
        return _run(named, config)
    return TrainedPolicy(named.system.name, named.best_trained(), named.system, str(word))


def _knowing(system: System, config: dict[str, Any], network: Any, path: Path) -> System:
    """The system, with the own network of a run."""
    own = config.get("own_network")
    if config.get("own_learner"):
        raise JaxschedError(
            f"{path}: was trained by a learner of one's own, {config['own_learner']!r}; accepted: "
            "runs of the library's learners"
        )
    if own and network is None:
        raise JaxschedError(f"{path}: has a network of one's own, {own!r}: give it as network")
    return system if network is None else with_network(system, network)


def _run(named: Named, config: dict[str, Any]) -> Run:
    path, system = Path(named.place), named.system
    learned, saved = named.trained()
    curves: list[list[Point]] = []
    finished, wall_s = False, None
    folder = path / "checkpoints"
    if checkpoints.steps(folder):
        meta = checkpoints.read_meta(folder)
        wall_s = float(meta["spent_s"])
        curves = [[Point(*point) for point in curve] for curve in meta["curves"]]
        (*_, last) = config["recipe"].get("stages", [config["recipe"]])
        finished = trainer.ended(meta, last.get("loop", {}).get("num_updates"))
    scores = saved_policies.scores_of(system, saved)
    return Run(path, learned, curves, scores, facts_of_run(config), finished, system, wall_s)
