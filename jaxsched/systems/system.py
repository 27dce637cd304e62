"""A system as a record of parts, all data.

The command line, the training driver and the comparisons work on this record alone, by the
functions of :mod:`jaxsched.systems.functions`, :mod:`jaxsched.systems.presets` and
:mod:`jaxsched.systems.stages`; they look it up by name in :mod:`jaxsched.systems.registry`.

A name, the environment and its metrics are required. Every other part has a default that serves a
small system: job records and metrics from the standard record (``jaxsched.core.recorder``), a small
network and recipes that train it.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxsched.core.array_policy import ArrayPolicy
from jaxsched.core.environment import Environment
from jaxsched.core.evaluation import Recorder
from jaxsched.core.policies import Play, Policy
from jaxsched.core.recorder import job_recorder
from jaxsched.errors import JaxschedError
from jaxsched.jobs import RIGID_JOBS, JobTable, Schema, stack_tables
from jaxsched.jobs.draws import generator
from jaxsched.jobs.kinds import JobKind
from jaxsched.jobs.metrics import STANDARD, Metric, of_log
from jaxsched.networks.mlp import MLP, ValueMLP, sizes_of
from jaxsched.systems.cases import Content
from jaxsched.systems.cluster_arrays import ClusterArrays
from jaxsched.systems.cluster_reader import ClusterReader
from jaxsched.systems.departures import Departures
from jaxsched.systems.figures import Figures
from jaxsched.systems.parts import Network, Played, PresetInfo, Rule, Shipped, TraceSet
from jaxsched.systems.policy_model import PolicyModel
from jaxsched.systems.recipe import Recipe
from jaxsched.systems.recording import Recording, running_jobs
from jaxsched.systems.workload import Workload
from jaxsched.traces.named import NamedTrace
from jaxsched.types import Array, DiscreteSpec, PRNGKey, PyTree, Specs

Summary = Mapping[str, Mapping[str, float]]
"""Policy -> metric, or figure of a curve -> mean over the episodes."""


def same(env: Any) -> Any:
    """The environment as it is."""
    return env


def nothing_more(table: JobTable) -> Mapping[str, Any]:
    """No further columns."""
    del table
    return {}


def standard_metrics(
    env: Any, params: Any, episodes: np.ndarray, records: Any
) -> dict[str, np.ndarray]:
    """Metrics of each episode from the standard record, float64 ``[E]``."""
    del env, params, episodes
    return of_log(records)


def no_curves(records: Any) -> dict[str, np.ndarray]:
    """None."""
    del records
    return {}


def standard_recording(env: Environment) -> Recording:
    """Recordings in which each running job has a row."""
    return Recording(env, job_recorder(env), running_jobs)


def fully_connected(env: Environment, kind: str) -> Network:
    """A multilayer perceptron, such as ``mlp-64-64`` with two hidden layers of 64.

    The number of actions must not depend on the parameters.

    Raises:
      JaxschedError: no such kind, or actions that are not one choice of several.
    """
    hidden, spec = sizes_of(kind), env.action_spec(None)
    if not isinstance(spec, DiscreteSpec):
        raise JaxschedError(f"{env.name}: actions are not one choice of several")
    return MLP(spec.num_actions, hidden)


def fully_connected_value(env: Environment, kind: str) -> Any:
    """The value network with the same hidden layers.

    Raises:
      JaxschedError: no such kind.
    """
    del env
    return ValueMLP(sizes_of(kind))


def no_model(env: Any, kind: str, **options: Any) -> PolicyModel | None:
    """Policies are scores of actions, or outputs of the network."""
    del env, kind, options
    return None


def chosen_in_words(env: Any, chosen: Mapping[str, Any]) -> dict[str, str]:
    """The options of heuristics in words."""
    del env
    words = (f"{name.replace('_', ' ')} {value}" for name, value in chosen.items())
    return {"heuristics": ", ".join(words)} if chosen else {}


def no_claims(env: Any, summary: Summary, learned: str) -> list[dict[str, Any]]:
    """None."""
    del env, summary, learned
    return []


def nothing_published(
    env: Any, tables: Sequence[JobTable], summary: Summary
) -> dict[str, Any] | None:
    """None."""
    del env, tables, summary
    return None


def none_shipped(recipe: Recipe | None = None) -> str:
    """There are none."""
    del recipe
    return ""


class Jobs(NamedTuple):
    """Jobs of a system, and how other job tables and traces become its own.

    Attributes:
      workload: kinds of jobs and named traces.
      traces: of evaluations without a recipe; None: the first named trace, with other seeds for the
        test.
      num_jobs: of each table made of a real trace.
      from_rigid: ``from_rigid(table, index)``, a table of rigid jobs as this system's jobs;
        ``index`` is its place among others. None: they are these.
      mapping: of real traces, arguments of :class:`~jaxsched.traces.mapping.MappingConfig` that are
        not its defaults.
      mean_gap_s: of real traces, unless a gap or a load is asked for.
      busy_gpus: the same as a load: GPUs that are busy on average.
      load: the same as a load of the cluster in use, however large that is.
    """

    workload: Workload = Workload()
    traces: TraceSet | None = None
    num_jobs: int = 100
    from_rigid: Callable[[JobTable, int], JobTable] | None = None
    mapping: Mapping[str, Any] = MappingProxyType({})
    mean_gap_s: float | None = None
    busy_gpus: float | None = None
    load: float | None = None

    @classmethod
    def of(
        cls,
        name: str,
        description: str,
        schema: Schema,
        draw: Callable[[np.random.Generator, int], Mapping[str, Any]],
        *,
        num_jobs: int = 1000,
        from_rigid: Callable[[JobTable], Mapping[str, Any]] = nothing_more,
    ) -> "Jobs":
        """Jobs of a new kind, drawn at random; one of them holds one GPU where that is asked.

        Args:
          name: of the trace that is drawn.
          description: of the trace, one line.
          schema: columns, ``submit_time`` (s) and ``duration`` (s) among them.
          draw: ``draw(generator, num_jobs)``, the columns of a table, ``[num_jobs]`` each.
          num_jobs: of each table that is drawn, unless asked otherwise.
          from_rigid: the columns that a table of rigid jobs lacks.
        """

        def drawn(seed: int, num_tables: int, num_jobs: int) -> list[JobTable]:
            return [
                JobTable(draw(generator(seed, i), num_jobs), f"{name}-{seed}-{i}", schema=schema)
                for i in range(num_tables)
            ]

        def as_rigid(table: JobTable) -> JobTable:
            whole = {"num_gpus": np.ones(len(table), int), "model": np.zeros(len(table), int)}
            columns = {column: table[column] for column in ("submit_time", "duration")}
            return JobTable({**columns, **whole}, table.name)

        def own(table: JobTable, index: int) -> JobTable:
            del index
            same = {c.name: table[c.name] for c in schema if c.name in table.columns}
            return JobTable({**same, **from_rigid(table)}, table.name, schema=schema)

        trace = NamedTrace(name, description, True, drawn, num_jobs)
        return cls(Workload((JobKind(schema, as_rigid),), (trace,)), from_rigid=own)

    def adapted(self, tables: Sequence[JobTable]) -> list[JobTable]:
        """Tables of rigid jobs, or already of this system's, as this system's jobs."""
        own = self.from_rigid
        if own is None:
            return list(tables)
        return [own(t, i) if t.schema == RIGID_JOBS else t for i, t in enumerate(tables)]

    @property
    def schema(self) -> Schema:
        """Columns of the tables."""
        return self.workload.jobs[0].schema

    def stacked(self, tables: Sequence[JobTable]) -> dict[str, Array]:
        """The columns of tables, padded to the longest; int32 ``[tables, jobs]`` each.

        ``submit_time`` of what is padded is ``NO_SUBMISSION``.

        Raises:
          JaxschedError: no tables, or one outside the schema's bounds.
        """
        columns = stack_tables(list(tables), schema=self.schema).columns
        return {column.name: jnp.asarray(columns[column.name]) for column in self.schema}


class Metrics(NamedTuple):
    """Metrics of policies.

    Attributes:
      primary: the metric by which policies are chosen and ranked, one of ``shown``.
      shown: names, in the order of tables.
      own: metrics that ``jaxsched.jobs.metrics.METRICS`` lacks.
      unfinished: value of the primary metric for a job whose episode was truncated before its end;
        None: episodes are not truncated.
      score: ``score(played)``, by which policies are chosen; None: the mean of the primary metric
        over the episodes.
      figures: figures of a report beside the usual bars.
    """

    primary: str
    shown: tuple[str, ...] = STANDARD
    own: Mapping[str, Metric] = MappingProxyType({})
    unfinished: float | None = None
    score: Callable[[Played], float] | None = None
    figures: Figures = Figures()


class EpisodeLog(NamedTuple):
    """The log of an episode: records, and the metrics and pictures made from them.

    Attributes:
      recorder: gathers the records of one episode; the same object for equal environments, as it is
        a static argument of the evaluation.
      metrics: ``metrics(env, params, episodes, records)``, float64 ``[E]`` by name; ``episodes``
        are those played, int ``[E]``, ``records`` NumPy arrays ``[E, ...]``.
      curves: ``curves(records)``, means over the episodes by name, float64 ``[n]``.
      recording: ``recording(env)``, which makes pictures of episodes; the same object for equal
        environments.
      evaluation: ``evaluation(env)``, the environment of evaluations; it has the same schedules.
    """

    recorder: Callable[[Any], Recorder] = job_recorder
    metrics: Callable[[Any, Any, np.ndarray, Any], dict[str, np.ndarray]] = standard_metrics
    curves: Callable[[Any], dict[str, np.ndarray]] = no_curves
    recording: Callable[[Any], Recording] = standard_recording
    evaluation: Callable[[Any], Any] = same


class Options(NamedTuple):
    """Options of a system's heuristics.

    Attributes:
      defaults: by name.
      accepted: values by name; any where a name is left out.
      words: ``words(env, chosen)`` the options in words, shown with results.
    """

    defaults: Mapping[str, Any] = MappingProxyType({})
    accepted: Mapping[str, tuple[Any, ...]] = MappingProxyType({})
    words: Callable[[Any, Mapping[str, Any]], dict[str, str]] = chosen_in_words


class Networks(NamedTuple):
    """Networks of policies.

    Attributes:
      policy: ``policy(env, kind)``, the network of that kind.
      value: the value network of that kind.
      default: kind in the library's recipes.
      aliases: former name of a kind -> its present name.
      model: ``model(env, kind, **options)``, the components of a policy while it learns in ``env``;
        None: policies are scores of actions, or outputs of the network.
      policy_of: ``policy_of(env, kind, name, play)``, the policy whose weights are the network's,
        the same object at each call; None: by scores or outputs of ``policy``.
      init: ``init(env, kind, key, specs)``, weights of the right structure; None: the network's.
      arrays: ``arrays(env, kind)``, a policy that is more than scores as a function of named
        arrays.
      shipped: ``shipped(env, name)``, the heuristic of that name as weights; None: it has none.
    """

    policy: Callable[[Any, str], Network] = fully_connected
    value: Callable[[Any, str], Any] = fully_connected_value
    default: str = "mlp-64-64"
    aliases: Mapping[str, str] = MappingProxyType({})
    model: Callable[..., PolicyModel | None] = no_model
    policy_of: Callable[[Any, str, str, Play], Policy] | None = None
    init: Callable[[Any, str, PRNGKey, Specs], PyTree] | None = None
    arrays: Callable[[Any, str], ArrayPolicy] | None = None
    shipped: Callable[[Any, str], Shipped | None] | None = None


class Size(NamedTuple):
    """A system's recipes for a cluster of another size.

    Attributes:
      cluster: its size, in a few words.
      recipes: by their names on the usual cluster.
      takes: how long one training took and on what, of those that were timed.
    """

    cluster: str
    recipes: Mapping[str, Recipe]
    takes: Mapping[str, str] = MappingProxyType({})


class Recipes(NamedTuple):
    """A system's own recipes.

    Attributes:
      presets: by name, on the usual cluster; empty: ``quick`` is a small Q-network.
      notes: purpose of each.
      departures: the paper's recipe, and words for differences from it.
      former_settings: former words of ``--set`` -> present words.
      sizes: the presets for other clusters, by the name of the size; their names are NAME-SIZE.
    """

    presets: Mapping[str, Recipe] = MappingProxyType({})
    notes: Mapping[str, PresetInfo] = MappingProxyType({})
    departures: Departures = Departures()
    former_settings: Mapping[str, str] = MappingProxyType({})
    sizes: Mapping[str, Size] = MappingProxyType({})

    @property
    def every(self) -> dict[str, Recipe]:
        """All of them, those of other sizes behind each."""
        found = {}
        for name, recipe in self.presets.items():
            found[name] = recipe
            of_sizes = {f"{name}-{size}": sized.recipes for size, sized in self.sizes.items()}
            found |= {longer: recipes[name] for longer, recipes in of_sizes.items()}
        return found


class Training(NamedTuple):
    """Defaults of the library's recipes and look-ahead policies.

    Attributes:
      planning: ``planning(env)``, the environment with the reward that a look-ahead sums; states
        and schedules are the same.
      planning_horizon_s: default horizon of look-ahead policies (simulated seconds).
      learns_in: ``learns_in(env)``, the environment of the library's recipes; None: ``planning``.
      horizon_s: horizon of their discount (simulated seconds).
      episode_steps: bound of an episode's steps; 0: no learner of whole episodes.
      teacher: ``teacher(env, name)``, the policy that is imitated; None: the heuristic of that
        name.
      shipped_digest: ``shipped_digest(recipe)``, digest of the shipped parameters that a recipe
        starts from; for None of all of them; empty if there are none.
    """

    planning: Callable[[Any], Any] = same
    planning_horizon_s: float = float("inf")
    learns_in: Callable[[Any], Any] | None = None
    horizon_s: float = 3600.0
    episode_steps: int = 1024
    teacher: Callable[[Any, str], Policy] | None = None
    shipped_digest: Callable[..., str] = none_shipped


class Paper(NamedTuple):
    """The paper and published figures.

    Attributes:
      source: the paper.
      claims: ``claims(env, summary, learned)``, rows of the report's table: claims beside measured
        values; ``learned`` names the learned policy, which finishes (nearly) all jobs.
      published: ``published(env, tables, summary)``, figures that others published for this cluster
        beside the measured ones: ``title``, ``columns`` and ``rows``, all strings; None: there are
        none.
    """

    source: str = ""
    claims: Callable[[Any, Summary, str], list[dict[str, Any]]] = no_claims
    published: Callable[[Any, Sequence[JobTable], Summary], dict[str, Any] | None] = (
        nothing_published
    )


class Cases(NamedTuple):
    """Golden cases.

    Attributes:
      read: ``read(case)``, the ``Content`` of a case; None: the system has no cases.
      whole: names of metrics that are whole numbers in results.
      double: cases are played in float64.
    """

    read: Callable[[Mapping[str, Any]], Content] | None = None
    whole: tuple[str, ...] = ()
    double: bool = False


class FrontEnd(NamedTuple):
    """How other programs describe a cluster to a policy that is served or exported.

    Attributes:
      reader: ``reader()``, the reader of clusters in JSON; None: there is none.
      arrays: ``arrays(env)``, the description of a cluster by arrays, for exports; None: there is
        none.
    """

    reader: Callable[[], ClusterReader[Any]] | None = None
    arrays: Callable[[Any], ClusterArrays | None] | None = None


@dataclass(frozen=True, eq=False)
class System:
    """One system: names, environment, jobs, policies, metrics, recipes, pictures and exports.

    Attributes:
      name: its name in commands.
      environment: a frozen dataclass that is an ``Environment``; its fields are the options.
      metrics: metrics of policies; or the name of a standard metric; or own metrics by name, the
        first of them the primary one.
      title: one line.
      decides: what an action decides, in a few words.
      policies: policies without training, in the order of tables; a function ``make(env)`` is a
        baseline whose words are the first line of its docstring, a ``Policy`` a reference.
      jobs: what its jobs are.
      log: the log of an episode.
      options: of the policies without training.
      networks: networks of trained policies.
      recipes: its own.
      training: defaults of the library's recipes.
      paper: what was published.
      cases: golden cases.
      front_end: how other programs describe a cluster.
    """

    name: str
    environment: type[Any]
    metrics: Metrics
    title: str = ""
    decides: str = ""
    policies: Mapping[str, Rule] = field(default_factory=dict)
    jobs: Jobs = Jobs()
    log: EpisodeLog = EpisodeLog()
    options: Options = Options()
    networks: Networks = Networks()
    recipes: Recipes = Recipes()
    training: Training = Training()
    paper: Paper = Paper()
    cases: Cases = Cases()
    front_end: FrontEnd = FrontEnd()

    def __post_init__(self) -> None:
        """Systems are shared: make their mappings read-only."""
        metrics: Any = self.metrics
        if isinstance(metrics, str):
            object.__setattr__(self, "metrics", Metrics(metrics))
        elif isinstance(metrics, Mapping):
            shown = (*metrics, *STANDARD)
            object.__setattr__(self, "metrics", Metrics(shown[0], shown, metrics))
        policies = {name: as_rule(rule) for name, rule in self.policies.items()}
        object.__setattr__(self, "policies", MappingProxyType(policies))

    if not TYPE_CHECKING:  # which knows the fields

        def __getattr__(self, name: str) -> Any:
            """Name the function that replaces a former method."""
            raise AttributeError(
                f"a System is a record and has no {name!r}; accepted: its parts, and functions of "
                f"jaxsched.systems.functions, presets and stages, as functions.{name}(system, ...)"
            )


def as_rule(given: Any) -> Rule:
    """A policy without training as a ``Rule``; it may be given as itself or as a function."""
    if isinstance(given, Rule):
        return given
    if isinstance(given, Policy):
        return Rule("reference", given.name, make=lambda env: given)
    words = (inspect.getdoc(given) or "").partition("\n")[0].rstrip(".")
    return Rule("baseline", words[:1].lower() + words[1:], make=given)
