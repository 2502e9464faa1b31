"""Data as it arrives: sources of blocks, folds over them, checkpoints, devices, Dask, and checks of rows and labels."""
