"""Environments in the forms of gymnax, Gymnasium, Stable-Baselines3, PettingZoo and dm_env."""
