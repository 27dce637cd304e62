"""A learner of one's own (init, act, update), without registering anything."""

import jax
import jax.numpy as jnp

import jaxsched


def random_search(specs, config=None):
    """Keeps the better of two random linear scores: a toy that shows the three functions."""
    shape = (*specs.observation.shape, specs.action.num_actions)

    def init(key, specs, params=None):
        return {"weights": jax.random.normal(key, shape), "best": jnp.float32(-jnp.inf)}

    def act(state, observation, mask, key, greedy):
        scores = observation @ state["weights"]
        return jnp.where(mask, scores, -jnp.inf).argmax(-1), {}

    def update(state, rollout, key):
        score = rollout.reward.mean()
        fresh = jax.random.normal(key, shape)
        weights = jnp.where(score > state["best"], state["weights"], fresh)
        return {"weights": weights, "best": jnp.maximum(score, state["best"])}, {"score": score}

    return jaxsched.Learner(init, act, update, policy_params=lambda state: state["weights"])


run = jaxsched.train(
    "sched2", learner=random_search, set={"loop.num_updates": 5, "loop.num_envs": 16}
)
assert "score" in run.metrics.columns
