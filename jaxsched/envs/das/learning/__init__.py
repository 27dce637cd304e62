"""Networks, agents and recipes of the system."""
