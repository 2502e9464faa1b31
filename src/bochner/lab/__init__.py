"""Methods of the literature that a user of the models rarely needs."""
