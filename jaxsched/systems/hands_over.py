"""What a system shows and hands over: records, pictures, cases, descriptions for other programs."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxsched.core.array_policy import ArrayPolicy
from jaxsched.core.evaluation import Recorder
from jaxsched.core.recorder import job_recorder
from jaxsched.core.trail import Trail
from jaxsched.errors import JaxschedError
from jaxsched.jobs.schedule import Schedule
from jaxsched.systems.cluster_arrays import ClusterArrays
from jaxsched.systems.cluster_reader import ClusterReader
from jaxsched.systems.environments import E, HasEnvironment
from jaxsched.systems.parts import Rule
from jaxsched.systems.recording import Recording, Staged, running_jobs
from jaxsched.types import DiscreteSpec


class HandsOver(HasEnvironment[E]):
    """What of a system leaves it, each with a default that serves a small one."""

    def recorder(self, env: E) -> Recorder:
        """Gathers the records of one episode; here the standard record.

        The same object for equal environments: it is a static argument of the evaluation.
        """
        return job_recorder(env)

    def recording(self, env: E) -> Recording:
        """How episodes become pictures; here jobs in rows of their own while they run.

        What it has of functions are the same objects for equal environments: they are static
        arguments of what plays them.

        Args:
          env: an environment that one of the system's policies plays in.
        """
        return Recording(env, self.recorder(env), running_jobs)

    def staged(self, case: Mapping[str, Any]) -> Staged:
        """A golden case that is an episode, ready to be played.

        Raises:
          JaxschedError: a bad case, one that is no episode, or the system has none.
        """
        del case
        raise JaxschedError(f"{self.name}: runs no cases")

    def schedules(
        self, env: E, params: Any, episodes: Any, records: Any, wanted: Sequence[int]
    ) -> list[Schedule]:
        """Schedules of the listed episodes as their records tell them; none where they do not.

        Names of policy and episode are filled in by who asked.

        Args:
          env: the environment the records come from.
          params: its parameters.
          episodes: int ``[E]``, the episodes played.
          records: of the recorder of ``recording``, leaves ``[E, ...]``.
          wanted: indices into ``episodes``.
        """
        schedule, found = self.recording(env).schedule, []
        for index in wanted:
            one = jax.tree.map(lambda leaf, at=index: np.asarray(leaf)[at], records)
            found.append(schedule(env, params, int(episodes[index]), Trail(one)))
        return [made for made in found if made is not None]

    def simulate(self, case: Mapping[str, Any]) -> dict[str, Any]:
        """Run a golden case; the result has the layout of its ``expect``.

        Raises:
          JaxschedError: a bad case, or the system has none.
        """
        del case
        raise JaxschedError(f"{self.name}: runs no cases")

    def cluster_reader(self) -> ClusterReader[E]:
        """How front ends describe the cluster to policies that serve them.

        Raises:
          JaxschedError: the system has no such description.
        """
        raise JaxschedError(f"{self.name}: has no description of a cluster for front ends")

    def array_policy(self, env: E, kind: str) -> ArrayPolicy | None:
        """That policy as a function of named arrays, for policies that are more than scores.

        Here None: a network's scores and the mask are all there is.
        """
        del env, kind
        return None

    def cluster_arrays(self, env: E) -> ClusterArrays | None:
        """How a cluster is told in plain arrays, so that exports take it; here not at all."""
        del env
        return None

    def rule(self, name: str, env: E) -> Rule | None:
        """The shipped weights of a heuristic that has some, so that it can be handed over.

        Here None: heuristics are not made of weights.
        """
        del name, env
        return None

    def _num_actions(self, env: E) -> int:
        spec = env.action_spec(None)
        if not isinstance(spec, DiscreteSpec):
            raise JaxschedError(f"{self.name}: actions are not one choice of several")
        return spec.num_actions
