"""The rules of DAS' cluster: no policy, no learning."""
