"""The environment protocol, policies, learners, and the one loop that trains and evaluates."""
