"""Estimates for fields of a job that a front end does not know.

A front end may leave out a job's run time and model, or send them as null; a model for which the
system has no figures counts as unknown. The value of the request's ``assume``, or else the system's
estimate, is used instead, and the answer lists it under ``estimated``.
"""

from collections.abc import Callable, Mapping, Sequence
from math import ceil, isfinite
from typing import Any, NamedTuple

from jaxsched.errors import JaxschedError
from jaxsched.jobs.columns import describe_value
from jaxsched.jobs.models import index_of, spelled

ROUNDING = 1e-3
"""Seconds by which differences of two clock readings may be off."""


class Estimate(NamedTuple):
    """One field of a job that may be unknown.

    Attributes:
      default: the estimate, in the front end's units and spelling.
      read: ``(value, place in the request) -> value in job tables``; None: counts as unknown.
      why: origin of the default, for the schema.
      accepted: accepted values in words, for error messages.
      adapted: ``(estimate, job) -> estimate for this job``.
    """

    default: Any
    read: Callable[[Any, str], Any]
    why: str
    accepted: str
    adapted: Callable[[Any, Mapping[str, Any]], Any] = lambda value, job: value


Estimates = Mapping[str, Estimate]


def assumed(cluster: Mapping[str, Any], estimates: Estimates) -> dict[str, Any]:
    """The estimate of each field: that of the request's ``assume``, else the default.

    Raises:
      JaxschedError: ``assume`` is no object, or has another field or value.
    """
    given = cluster.get("assume")
    given = {} if given is None else given
    known = ", ".join(estimates)
    if not isinstance(given, Mapping):
        raise JaxschedError(f"assume is {describe_value(given)}; accepted: an object with {known}")
    for name, value in given.items():
        if name not in estimates:
            raise JaxschedError(f"assume.{str(name)[:40]} is unknown; accepted: {known}")
        if value is not None and estimates[name].read(value, f"assume.{name}") is None:
            accepted = estimates[name].accepted
            raise JaxschedError(f"assume.{name} is {describe_value(value)}; accepted: {accepted}")
    found = {
        name: estimate.default if given.get(name) is None else given[name]
        for name, estimate in estimates.items()
    }
    return {name: spelled(x) if isinstance(x, str) else x for name, x in found.items()}


def filled(
    job: Mapping[str, Any], where: str, estimates: Estimates, stand_in: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A job with every field as in job tables, and the estimates used, as a front end spells them.

    Args:
      job: as the front end describes it.
      where: its place in the request.
      estimates: the fields.
      stand_in: the result of ``assumed``.

    Raises:
      JaxschedError: a value that can be neither read nor unknown.
    """
    found, told = dict(job), {}
    for name, estimate in estimates.items():
        value = job.get(name)
        read = None if value is None else estimate.read(value, f"{where}.{name}")
        if read is None:
            told[name] = estimate.adapted(stand_in[name], job)
            read = estimate.read(told[name], f"assume.{name}")
        found[name] = read
    return found, told


def model_estimate(models: Sequence[str], default: str, why: str) -> Estimate:
    """Estimate of a job's model: a name in any spelling, or a row of the system's models."""
    accepted = ", ".join(models)

    def read(value: Any, where: str) -> int | None:
        if isinstance(value, str):
            return index_of(value, models)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(models):
            return value
        raise JaxschedError(
            f"{where} is {describe_value(value)}; accepted: {accepted}, another name, null"
        )

    return Estimate(default, read, why, accepted)


def seconds(value: Any, where: str, most: int) -> int:
    """A time above 0 in whole seconds, rounded up.

    Raises:
      JaxschedError: no number of that range.
    """
    if not (is_number(value) and 0 < value <= most):
        raise JaxschedError(
            f"{where} is {describe_value(value)}; accepted: seconds above 0 and up to {most}, null"
        )
    return max(ceil(value - ROUNDING), 1)


def is_number(value: Any) -> bool:
    """Whether a value of JSON is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return isinstance(value, int) or isfinite(value)


def assume_schema(estimates: Estimates) -> dict[str, Any]:
    """JSON Schema of a request's ``assume``."""
    return {
        "type": "object",
        "additionalProperties": False,
        "description": "what to assume of jobs where it is not known",
        "properties": {
            name: {"default": estimate.default, "description": f"by default {estimate.why}"}
            for name, estimate in estimates.items()
        },
    }


def model_schema(models: Sequence[str]) -> dict[str, Any]:
    """JSON Schema of a job's model."""
    return {
        "type": ["string", "integer", "null"],
        "examples": list(models),
        "description": f"{', '.join(models)} in any spelling, or the number of one from 0 on; "
        "another name, null or no model at all: estimated",
    }


ESTIMATED_SCHEMA: Mapping[str, Any] = {
    "type": "array",
    "description": "what was assumed: for each job with unknown fields its id and their values, "
    "for GPUs that are busy for an unknown time their list and that time",
    "items": {"type": "object"},
}
