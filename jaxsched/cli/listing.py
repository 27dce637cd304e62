"""``jaxsched list``."""

from jaxsched.cli.output import console

LEARNERS = {
    "dqn": "deep Q-network: target network, double, n-step, prioritised replay",
    "imitation": "supervised learning of a teacher's decisions, live or recorded",
    "actor_critic": "REINFORCE actor-critic with prioritised replay, federated clusters",
    "ppo": "proximal policy optimisation (PPO, MAPPO): one agent or several, any actions",
    "regression": "supervised learning of a teacher's numbers or of the order they imply",
    "cross_entropy": "cross-entropy method over whole episodes, with a uniform trajectory",
    "evolution": "cross-entropy search over the parameters of small policies",
}


def list_all() -> None:
    """Systems, policies, learners, traces and presets."""
    from jaxsched.systems import registry
    from jaxsched.traces import clusters
    from jaxsched.traces import registry as traces

    rows: list[tuple[str, str, str]] = []
    for name in registry.names():
        system = registry.get(name)
        rows.append(("system", name, system.title))
        for policy, info in system.policies.items():
            slow = ", slow: by name only" if info.slow else ""
            rows.append(("policy", f"{name}/{policy}", f"{info.description} ({info.kind}{slow})"))
        for preset, recipe in system.all_presets.items():
            steps = system.budget(recipe)
            rows.append(("preset", f"{name}/{preset}", f"{steps:,} environment steps"))
    rows += [("learner", learner, words) for learner, words in LEARNERS.items()]
    rows += [("trace", entry.name, entry.description) for entry in traces.entries()]
    rows += [("trace", name, clusters.describe(name)) for name in clusters.names()]
    out = console()
    for kind, name, words in rows:
        out.print(f"{kind:8} {name:20} {words}", highlight=False)
