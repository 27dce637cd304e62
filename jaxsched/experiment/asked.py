"""A request for a comparison: the policies and the episodes. Importing it imports no JAX."""

from typing import TYPE_CHECKING, Any, NamedTuple

from jaxsched.experiment.options import TraceOptions

if TYPE_CHECKING:
    from jaxsched.experiment.functions import FunctionPolicy
    from jaxsched.experiment.sources import Source
    from jaxsched.results.comparison import Learned
    from jaxsched.runs.policies import Named


class Players(NamedTuple):
    """Policies of a comparison.

    Attributes:
      heuristics: by name; None: all of them.
      trained: trained policies.
      as_seeds: whether these are training seeds of one policy.
      loaded: further trained policies.
      own: rules of the user's own.
    """

    heuristics: list[str] | None
    trained: "list[Named]"
    as_seeds: bool = False
    loaded: "tuple[Learned, ...]" = ()
    own: "tuple[FunctionPolicy, ...]" = ()


class Asked(NamedTuple):
    """Cluster, episodes and options of a comparison.

    Attributes:
      preset: preset whose cluster and test traces are used; None: the system's own.
      changes: of the environment, ``env.NAME=VALUE`` each.
      trace: where the episodes come from; None: the test traces.
      options: how a trace becomes episodes.
      chosen: options of heuristics.
    """

    preset: str | None
    changes: list[str]
    trace: "Source | None"
    options: TraceOptions
    chosen: dict[str, Any]
