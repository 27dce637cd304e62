"""Policies, episodes and cluster of a comparison, and facts about them."""

from typing import Any, NamedTuple

from jaxsched.core.policies import Policy
from jaxsched.errors import JaxschedError
from jaxsched.experiment.asked import Asked, Players
from jaxsched.experiment.options import LOAD
from jaxsched.experiment.sources import Episodes, resolve
from jaxsched.jobs import digest_tables
from jaxsched.provenance import facts_in_words
from jaxsched.results import comparison
from jaxsched.results.comparison import Contest, Learned
from jaxsched.runs.overrides import change_environment
from jaxsched.runs.policies import on_cluster
from jaxsched.systems import functions, presets
from jaxsched.systems.parts import TraceSet
from jaxsched.systems.system import System
from jaxsched.traces.describe import load_in_words


class Prepared(NamedTuple):
    """A comparison that is ready to run.

    Attributes:
      contest: policies and episodes.
      names: heuristics.
      learned: trained policies.
      environment: cluster of the heuristics.
      summary: changes by the import of the trace; empty if there are none.
      own: rules of the user's own.
    """

    contest: Contest
    names: list[str]
    learned: list[Learned]
    environment: Any
    summary: str
    own: list[Policy]


def prepare(system: System, players: Players, asked: Asked, command: str = "") -> Prepared:
    """Resolve policies, episodes and cluster of a comparison.

    Args:
      system: whose policies play.
      players: which policies.
      asked: on what.
      command: that gives the same results.

    Raises:
      JaxschedError: a name, a trace or a folder is refused.
    """
    environment, traces = cluster_of(system, asked)
    names = players.heuristics
    if names is None:
        names = functions.usual_policies(system, environment)
    for name in names:
        functions.policy_info(system, name)
    learned = []
    for found in (*players.loaded, *(policy.trained()[0] for policy in players.trained)):
        learned.append(on_cluster(found, system, change_environment(found.env, asked.changes)))
    if players.as_seeds:
        learned = [comparison.as_seeds(learned)]
    clusters = {functions.facts(system, policy.env, asked.chosen)["cluster"] for policy in learned}
    if len(clusters) > 1:
        raise JaxschedError("the trained policies are for clusters of different sizes")
    environment = learned[0].env if learned else environment
    if players.heuristics is None:
        names = functions.usual_policies(system, environment)
    for name in names:  # refuse bad names before any work
        functions.heuristic(system, name, environment, 1, asked.chosen)
    usual = asked.options
    if asked.trace is None and usual.num_traces is None:
        usual = usual._replace(num_traces=traces.num_test)
    source = traces.test if asked.trace is None else asked.trace
    episodes = resolve(source, system, usual, environment)
    episodes = episodes.made_with(asked.options, system, environment)
    contest = comparison.Contest(
        system,
        episodes.tables,
        episodes.source,
        options=asked.chosen,
        facts=facts_of(system, environment, episodes, asked.chosen),
        command=command,
    )
    own = [rule.on(environment) for rule in players.own]
    return Prepared(contest, names, learned, environment, episodes.summary, own)


def cluster_of(system: System, asked: Asked) -> tuple[Any, TraceSet]:
    """The cluster of the heuristics, and the default traces.

    Raises:
      JaxschedError: a name or an option is refused.
    """
    environment, traces = functions.environment(system), functions.traces(system)
    if asked.preset is not None:
        recipe = presets.preset(system, asked.preset)
        environment, traces = recipe.env, presets.recipe_traces(system, recipe)
    return change_environment(environment, asked.changes), traces


def facts_of(
    system: System, environment: Any, episodes: Episodes, chosen: dict[str, Any]
) -> dict[str, Any]:
    """Facts about the set-up, for the table and the report."""
    own = functions.facts(system, environment, chosen)
    load = load_in_words(episodes.tables, sum(environment.server_gpus()), environment.gpu_slots())
    return {
        "cluster": own.pop("cluster"),
        **({LOAD: load} if load else {}),
        "test traces": episodes.source,
        "digest of the test traces": digest_tables(episodes.tables)[:12],
        **({"digest of the published trace": episodes.digest[:12]} if episodes.digest else {}),
        **own,
        **facts_in_words(),
    }
