"""Environments in the forms of other projects: gymnax, Gymnasium, Stable-Baselines3, PettingZoo, dm_env."""
