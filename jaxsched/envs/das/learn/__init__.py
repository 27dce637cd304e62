"""How policies of DAS are trained: networks, agents, recipes."""
