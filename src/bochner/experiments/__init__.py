"""Comparisons of approximations on the data of the user, and their report."""
