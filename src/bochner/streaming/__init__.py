"""How data arrives: sources of blocks, the fold into statistics, checkpoints and progress."""

from bochner.streaming.arrow import ArrowSource
from bochner.streaming.checkpoints import (
    Checkpoint,
    RowDigest,
    check_path,
    described,
    fingerprint,
    read_arrays,
    saved_about,
    write_arrays,
)
from bochner.streaming.devices import (
    DeviceSource,
    on_device,
    open_device,
    rows_on,
    sampled_preconditioner,
)
from bochner.streaming.folds import (
    Fold,
    StatisticsFold,
    StreamedGram,
    Targets,
    accumulate,
    accumulate_deflated,
    leave_one_out_errors,
    resumed,
)
from bochner.streaming.newton import newton
from bochner.streaming.objectives import Problem
from bochner.streaming.progress import Progress
from bochner.streaming.sources import (
    ArraySource,
    Block,
    BlockSource,
    MappedSource,
    Source,
    checked_block,
    default_rows,
    positive,
    representative,
)

__all__ = [
    "ArraySource",
    "ArrowSource",
    "Block",
    "BlockSource",
    "Checkpoint",
    "DeviceSource",
    "Fold",
    "MappedSource",
    "Problem",
    "Progress",
    "RowDigest",
    "Source",
    "StatisticsFold",
    "StreamedGram",
    "Targets",
    "accumulate",
    "accumulate_deflated",
    "check_path",
    "checked_block",
    "default_rows",
    "described",
    "fingerprint",
    "leave_one_out_errors",
    "newton",
    "on_device",
    "open_device",
    "positive",
    "read_arrays",
    "representative",
    "resumed",
    "rows_on",
    "sampled_preconditioner",
    "saved_about",
    "write_arrays",
]


def __dir__() -> list[str]:
    return sorted(__all__)
