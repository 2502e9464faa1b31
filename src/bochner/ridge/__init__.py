"""Ridge regression from sums: statistics of a pass, their spectrum, solvers, and the solution for a penalty."""
