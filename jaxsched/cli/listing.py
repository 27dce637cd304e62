"""``jaxsched list``."""

from jaxsched.cli.main import app
from jaxsched.cli.output import console

LEARNERS = {
    "dqn": "deep Q-network: target network, double, n-step, prioritised replay",
    "imitation": "supervised learning of a teacher's decisions, live or recorded",
    "actor_critic": "REINFORCE actor-critic with prioritised replay, federated clusters",
    "ppo": "proximal policy optimisation; groups of decisions at one instant",
    "cross_entropy": "cross-entropy method over whole episodes, with a uniform trajectory",
}


@app.command("list")
def list_all() -> None:
    """Systems, policies, learners, traces and presets."""
    from jaxsched import registry
    from jaxsched.traces import registry as traces

    rows: list[tuple[str, str, str]] = []
    for name in registry.names():
        system = registry.get(name)
        rows.append(("system", name, system.title))
        for policy, info in system.policies.items():
            rows.append(("policy", f"{name}/{policy}", f"{info.description} ({info.kind})"))
        for preset in system.presets:
            loop = system.presets[preset].loop
            steps = loop.num_updates * loop.steps_per_update
            rows.append(("preset", f"{name}/{preset}", f"{steps:,} environment steps"))
    rows += [("learner", learner, words) for learner, words in LEARNERS.items()]
    rows += [("trace", entry.name, entry.description) for entry in traces.entries()]
    out = console()
    for kind, name, words in rows:
        out.print(f"{kind:8} {name:20} {words}", highlight=False)
