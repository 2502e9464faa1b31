"""Experiments that end in something to look at: comparisons on your data, reports, figures."""
