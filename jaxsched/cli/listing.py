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

    out = console()
    for name in registry.names():
        system = registry.get(name)
        out.print(f"system   {system.name:16} {system.title}", highlight=False)
        for policy, info in system.policies.items():
            out.print(f"policy   {system.name}/{policy:9} {info.description} ({info.kind})")
        for preset in system.presets:
            loop = system.presets[preset].loop
            steps = loop.num_updates * loop.steps_per_update
            out.print(f"preset   {system.name}/{preset:9} {steps:,} environment steps")
    for learner, description in LEARNERS.items():
        out.print(f"learner  {learner:16} {description}", highlight=False)
    for entry in traces.entries():
        out.print(f"trace    {entry.name:16} {entry.description}", highlight=False)
