from bochner.theory._checks import *  # noqa: F403
