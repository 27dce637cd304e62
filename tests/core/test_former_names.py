"""Names that environments had for one version more."""

import jax
import jax.numpy as jnp
import pytest

from tests.probes import Grouped, grouped_pay


def test_former_names_still_work():
    env = Grouped()
    for former, name in (
        ("tells_whole_state", "has_privileged_state"),
        ("redraws_futures", "can_resample_future"),
    ):
        with pytest.warns(DeprecationWarning, match=f"Environment.{former} is called {name}"):
            assert getattr(env, former) == getattr(env, name)


def test_an_environment_may_still_tell_its_state_by_the_former_name():
    with pytest.warns(DeprecationWarning, match="whole_state is called privileged_state"):

        class Telling(Grouped):
            def whole_state(self, state, params):
                del state, params
                return jnp.ones(1)

    env, params = Telling(), grouped_pay()
    assert env.has_privileged_state
    state, _ = env.reset(jax.random.key(0), params)
    assert env.privileged_state(state, params) == 1
