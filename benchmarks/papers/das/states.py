"""F6: what the trained policy gives in three scripted cluster states (Fig. 6).

Axes: ``N`` positions, ``M`` machines.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.das.common import outcome, train
from benchmarks.papers.lab import Lab
from benchmarks.papers.outcome import Check, Outcome, Table, beside, percent
from benchmarks.papers.policies import Policies
from jaxsched.core.policies import Policy, View
from jaxsched.envs.das.environment import DAS
from jaxsched.envs.das.jobs import GANG_JOBS
from jaxsched.envs.das.rules.observation import DAY_S, INSTANCE_SCALE, Observation
from jaxsched.jobs import JobTable
from jaxsched.results.statistics import Floats
from jaxsched.systems import functions
from jaxsched.types import PyTree

Integers = NDArray[np.int64]

CLUSTER = "small"
NUM_STATES, LEAST_CORRECT = 50, 0.8
STATES_SEED = 7006
LARGE_JOB = (8, 7, 42, 203, 600)
SMALL_JOBS = ((1, 1, 6, 29, 480), (2, 1, 6, 29, 360), (1, 2, 12, 58, 240), (1, 4, 24, 116, 120))
NEIGHBOUR, QUIET = 0, 1  # machines of the second scene that are compared
LIGHT, HEAVY = (1, 2, 8, 58), (1, 2, 24, 58)  # jobs of the third scene: instances to GB
ARRIVALS = (LIGHT, HEAVY, LIGHT, HEAVY)


class Scenes(NamedTuple):
    """What one policy gives in the three scenes.

    Attributes:
      priorities: ``[N]`` of the crowded cluster's real positions, the job that cannot fit first.
      preference: ``[NUM_STATES]``, affinity to the quiet machine less that to its twin.
      affinities: ``[4, M]``, of the job that arrives at each of four steps.
      chosen: ``[4]``, the machine that it is placed on.
    """

    priorities: Floats
    preference: Floats
    affinities: Floats
    chosen: Integers


def scripted_states(lab: Lab) -> Outcome:
    """F6, Fig. 6."""
    trained = train(lab, ("DAS",), (CLUSTER,))[CLUSTER]["DAS"]
    scenes = play_scenes(lab, trained)
    half = trained.setup.play_env.num_servers // 2  # type: ignore[attr-defined]
    table = Table(
        "by seed: rank of the job that cannot fit; states in which the quiet machine is preferred; "
        "machines chosen at the four steps (* short of CPUs)",
        ["seed", "rank", "of", "quiet preferred (%)", "machines"],
        [
            [
                str(seed),
                _rank(scene.priorities),
                scene.priorities.size,
                100 * _correct(scene),
                " ".join(f"{m}{'*' if m < half else ''}" for m in scene.chosen),
            ]
            for seed, scene in zip(trained.seeds, scenes, strict=True)
        ],
    )

    def draw(figure: Any) -> None:
        first, second, third = figure.subplots(1, 3)
        priorities = np.stack([scene.priorities for scene in scenes])
        _heat_map(figure, first, priorities, "priority; position 0 cannot fit", "position", "seed")
        preference = np.stack([np.sort(scene.preference) for scene in scenes])
        words = "affinity, quiet less network-heavy"
        _heat_map(figure, second, preference, words, "state, sorted", "seed", centred=True)
        words = f"affinity; {half} machines are short of CPUs"
        _heat_map(figure, third, scenes[0].affinities, words, "machine", "step")
        third.plot(scenes[0].chosen, range(len(ARRIVALS)), "o", color="white", mec="black")

    values = {str(seed): scene._asdict() for seed, scene in zip(trained.seeds, scenes, strict=True)}
    notes = (
        "first state: eight instances of seven GPUs, pending for the longest time, and four jobs "
        "that fit; no machine has more than four free GPUs. The teacher's labels give jobs that "
        "cannot be placed the last rank",
        f"second: {NUM_STATES} random states in which two machines differ only in the network "
        "traffic of a job on one of them; the pending job needs several machines",
        "third: jobs that need few and many CPUs arrive in turn; on half of the machines GPUs are "
        "free that jobs with many CPUs cannot use; first seed shown",
    )
    return outcome(lab, ("DAS",), [table], checks_of(scenes, half), values, draw, *notes)


def checks_of(scenes: Sequence[Scenes], short: int) -> list[Check]:
    """The claims on the scenes of all seeds; the first ``short`` machines are short of CPUs."""
    ranks = [_rank(scene.priorities) for scene in scenes]
    light = [i for i, job in enumerate(ARRIVALS) if job == LIGHT]
    kept = float(np.mean([np.mean(scene.chosen[light] < short) for scene in scenes]))
    return [
        beside(
            "(a) rank of the job that cannot fit; least over the seeds", "not first", min(ranks)
        ),
        beside(
            f"(b) quiet machine preferred, share of {NUM_STATES} states, least over the seeds",
            "preferred",
            min(_correct(scene) for scene in scenes),
            shown=percent,
        ),
        beside("(c) CPU-light jobs on machines short of CPUs", "shown", percent(kept)),
    ]


def play_scenes(lab: Lab, trained: Policies) -> list[Scenes]:
    """The three scenes, by seed."""
    setup = trained.setup
    env = setup.play_env
    assert isinstance(env, DAS)
    policy = functions.network_policy(lab.system, env, setup.network, setup.policy.name, setup.play)
    params = env.params([arrivals_table(env)])
    memory, key = policy.init(params), jax.random.key(0)

    @jax.jit
    def decide(weights: PyTree, observation: Observation) -> dict[str, Any]:
        view = View(observation, observation.real, None, None)
        action, _ = policy.act(weights, memory, view, key)
        return dict(action)

    many = jax.jit(jax.vmap(decide, (None, 0)))
    crowded, twins = crowded_state(env), twin_states(env, NUM_STATES, STATES_SEED)
    scenes = []
    for weights in trained.weights:
        priority = np.asarray(decide(weights, crowded)["priority"], np.float64)
        affinity = np.asarray(many(weights, twins)["affinity"], np.float64)[:, 0]
        preference = affinity[:, QUIET] - affinity[:, NEIGHBOUR]
        rows, chosen = play_arrivals(env, policy, weights)
        scenes.append(Scenes(priority[crowded.real], preference, rows, chosen))
    return scenes


def observation_of(env: DAS, jobs: Sequence[Sequence[int]], machines: Any) -> Observation:
    """The observation of given jobs and machines (section 4).

    Args:
      env: sizes and scales.
      jobs: instances, and of each instance GPUs, CPUs, GB; seconds since submission.
      machines: ``[M, 4]``, free GPUs, CPUs, GB, and network-active GPUs.
    """
    jobs = jobs[: env.window]
    jobs_seen = np.zeros((env.window, 5), np.float32)
    scale = (INSTANCE_SCALE, *env.capacity, DAY_S)
    jobs_seen[: len(jobs)] = np.asarray(jobs) / np.asarray(scale)
    gpus, cpus, mem, active = np.asarray(machines, np.float64).T
    bandwidth = env.bandwidth_per_server
    idle = np.maximum(bandwidth - env.net_per_gpu * active, 0) / bandwidth
    share = gpus / env.gpus_per_server
    columns = [cpus / env.cpus_per_server, share, mem / env.mem_per_server, idle, 1 - share]
    real = np.arange(env.window) < len(jobs)
    return Observation(jobs_seen, np.stack(columns, axis=-1).astype(np.float32), real)  # type: ignore[arg-type]


def crowded_state(env: DAS) -> Observation:
    """A large job that fits nowhere, pending for the longest time, and small ones that fit."""
    index = np.arange(env.num_servers)
    free = np.where(index % 2 == 0, 4, 2)
    machines = np.stack([free, 12 * free, 48 * free, np.zeros_like(free)], axis=-1)
    return observation_of(env, [LARGE_JOB, *SMALL_JOBS], machines)


def twin_states(env: DAS, count: int, seed: int) -> Observation:
    """Random states in which two machines differ in network traffic only; leaves ``[count, ...]``.

    The only pending job has one-GPU instances, more than any machine has GPUs free.
    """
    draw, states = np.random.default_rng(seed), []
    for _ in range(count):
        used = draw.integers(2, env.gpus_per_server, env.num_servers)
        used[QUIET] = used[NEIGHBOUR]
        cpus, mem = draw.integers(4, 11, env.num_servers), draw.integers(16, 41, env.num_servers)
        cpus[QUIET], mem[QUIET] = cpus[NEIGHBOUR], mem[NEIGHBOUR]
        active = draw.integers(0, used + 1)
        active[NEIGHBOUR], active[QUIET] = draw.integers(2, used[NEIGHBOUR] + 1), 0
        held = used, cpus * used, mem * used
        free = [most - some for most, some in zip(env.capacity, held, strict=True)]
        machines = np.stack([*free, active], axis=-1)
        age = int(draw.integers(0, 3600))
        states.append(observation_of(env, [(8, 1, 6, 29, age)], machines))
    stacked: Observation = jax.tree.map(lambda *leaves: np.stack(leaves), *states)
    return stacked


def arrivals_table(env: DAS) -> JobTable:
    """Two gangs that fill half of the machines each, then the four jobs of the third scene.

    The first leaves GPUs without CPUs; the second leaves as many CPUs as nobody needs.
    """
    half = env.num_servers // 2
    fillers = [(half, 2, 80, 64), (env.num_servers - half, 6, 24, 64)]
    shapes = np.array([*fillers, *ARRIVALS], np.int64)
    columns = {
        "submit_time": np.array([0, 0, *(60 * (i + 1) for i in range(len(ARRIVALS)))], np.int64),
        **{c.name: shapes[:, i] for i, c in enumerate(GANG_JOBS[1:5])},
        "duration": np.full(len(shapes), 100_000, np.int64),
    }
    return JobTable(columns, "arrivals", schema=GANG_JOBS)


def play_arrivals(env: DAS, policy: Policy, weights: PyTree) -> tuple[Floats, Integers]:
    """The third scene: the gangs are placed by script, the four jobs by the policy.

    Returns:
      Affinities ``[4, M]`` of the job that arrives at each step, and the machine chosen.
    """
    params, key = env.params([arrivals_table(env)]), jax.random.key(0)
    row = -jnp.arange(env.num_servers, dtype=jnp.float32)
    script = {
        "priority": -jnp.arange(env.window, dtype=jnp.float32),
        "affinity": jnp.broadcast_to(row, (env.window, env.num_servers)),
    }
    step = jax.jit(env.step)
    act = jax.jit(policy.act)
    state, _ = jax.jit(env.reset)(key, params, jnp.int32(0))
    state, timestep = step(key, state, script, params)
    memory = policy.init(params)
    rows, chosen = [], []
    for _ in ARRIVALS:
        view = View(timestep.observation, timestep.action_mask, state, params)
        action, memory = act(weights, memory, view, key)
        state, timestep = step(key, state, action, params)
        rows.append(np.asarray(action["affinity"][0], np.float64))
        counts = np.asarray(timestep.metrics.counts[0])
        assert counts.any(), "each of the four jobs can be placed"
        chosen.append(int(np.argmax(counts)))
    return np.stack(rows), np.array(chosen)


def _rank(priorities: Floats) -> int:
    """Rank of the first position, from 1; ties are won by lower positions."""
    return 1 + int(np.sum(priorities > priorities[0]))


def _correct(scene: Scenes) -> float:
    return float(np.mean(scene.preference > 0))


def _heat_map(
    figure: Any,
    axes: Any,
    values: Floats,
    title: str,
    x_label: str,
    y_label: str,
    *,
    centred: bool = False,
) -> None:
    most = float(np.abs(values).max()) or 1.0
    limits = {"vmin": -most, "vmax": most, "cmap": "RdBu"} if centred else {"cmap": "viridis"}
    shown = axes.imshow(values, aspect="auto", interpolation="nearest", **limits)
    figure.colorbar(shown, ax=axes, orientation="horizontal", shrink=0.8)
    axes.set(xlabel=x_label, ylabel=y_label, yticks=range(len(values)))
    axes.set_title(title, fontsize=9)
