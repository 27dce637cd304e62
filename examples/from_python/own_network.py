"""A researcher's network under our PPO, on our environment."""

import flax.linen as nn

import jaxsched


class Torso(nn.Module):
    """Any module from observations ``[..., n]`` to scores ``[..., num_actions]``."""

    num_actions: int

    @nn.compact
    def __call__(self, observation):
        """Scores of the actions."""
        x = nn.relu(nn.LayerNorm()(nn.Dense(64)(observation)))
        return nn.Dense(self.num_actions)(x)


env, params = jaxsched.make("sched2")
network = Torso(env.action_spec(params).num_actions)
run = jaxsched.train(
    "sched2",
    preset="plain-ppo",
    network=network,
    set={"loop.num_updates": 6, "learner.learning_rate": 1e-3},
    out="runs/torso",
)
# A module is code: the run has its weights and says so.
again = jaxsched.load("runs/torso", network=network)
assert again.policy.network == run.policy.network
