"""Model files as an enemy would write them: well-formed, signed with the right checksum, and wrong inside."""

import copy
import json

import numpy as np

from bochner.persistence.containers import read, write

STRANGE = [
    None,
    True,
    -1,
    0,
    1,
    7,
    2**31,
    2**62,
    -(2**63),
    0.5,
    -1e300,
    "",
    "rbf",
    "pairs",
    "<U5",
    "t0",
    [],
    [1, 2],
    {},
    {"float": "nan"},
    {"tuple": []},
    {"array": "t0"},
    {"array": "t1", "order": "F"},
    {"class": "RBF", "fields": {"length_scale": 1.0}},
    {"class": "Key", "fields": {"seed": 1}},
    {"ufunc": "exp"},
    {"dtype": "<f4"},
]
DTYPES = ["u1", "i1", "<u2", "<i4", "<i8", "<u8", "<f4", "<f8", "?", "<c8"]


def open_file(path):
    """The JSON and the tensors of a file."""
    text, tensors = read(path)
    return json.loads(text), dict(tensors)


def places(tree):
    """Every (container, key) of a JSON tree."""
    found, stack = [], [tree]
    while stack:
        node = stack.pop()
        keys = list(node) if isinstance(node, dict) else range(len(node))
        for key in keys:
            found.append((node, key))
            if isinstance(node[key], (dict, list)):
                stack.append(node[key])
    return found


def mutate(about, tensors, choose):
    """Change one thing; choose(n) picks one of n."""
    kind = choose(8)
    if kind < 5 or not tensors:
        spots = places(about)
        spots = [spot for spot in spots if spot[0] is not about or spot[1] == "model"]
        if not isinstance(about.get("model"), dict):
            return
        node, key = spots[choose(len(spots))]
        if kind == 0 and isinstance(node, dict):
            del node[key]
        elif kind == 1:
            other, name = spots[choose(len(spots))]
            node[key] = copy.deepcopy(other[name])
        elif kind == 2 and isinstance(node[key], (int, float)) and not isinstance(node[key], bool):
            node[key] = node[key] + (-1, 1, 2, 1000)[choose(4)]
        elif kind == 3 and isinstance(node[key], str) and node[key] in tensors:
            node[key] = sorted(tensors)[choose(len(tensors))]
        else:
            node[key] = copy.deepcopy(STRANGE[choose(len(STRANGE))])
        return
    name = sorted(tensors)[choose(len(tensors))]
    tensor = tensors[name].copy()
    if kind == 5 and tensor.size:  # one entry
        values = np.array([0, 1, 127, 255, 2**15, 2**31 - 1, 2**40, -1, -(2**31)], dtype=np.float64)
        with np.errstate(all="ignore"):
            tensor.reshape(-1)[choose(tensor.size)] = values.astype(tensor.dtype)[choose(len(values))]
    elif kind == 6:  # another shape
        flat = tensor.reshape(-1)
        shapes = [flat, flat[:-1], flat[: len(flat) // 2], flat[None], flat[:, None], flat[:0], np.append(flat, flat)]
        tensor = np.ascontiguousarray(shapes[choose(len(shapes))])
        rows = tensors[name].shape[0] if tensors[name].ndim == 2 else 0
        if tensor.ndim == 1 and choose(2) and rows and tensor.size % rows == 0:
            tensor = tensor.reshape(rows, -1)
    else:  # another type
        with np.errstate(all="ignore"):
            tensor = tensor.real.astype(DTYPES[choose(len(DTYPES))])
    tensors[name] = tensor


def forge(path, about, tensors):
    """Write with a checksum that fits."""
    write(path, json.dumps(about), tensors)


def size_of(value, depth=0):
    """The largest whole number in an object: what a call might allocate."""
    if isinstance(value, bool) or depth > 12:
        return 0
    if isinstance(value, (int, np.integer)):
        return abs(int(value))
    if isinstance(value, (tuple, list)):
        return max((size_of(item, depth + 1) for item in value), default=0)
    if hasattr(value, "__dict__"):
        return max((size_of(item, depth + 1) for item in vars(value).values()), default=0)
    return 0


def use(model, n_features):
    """Predict with whatever was loaded. Any Python exception will do; a crash will not."""
    if size_of(model) > 10**5:  # memory is the caller's own affair here
        return
    X = np.random.default_rng(0).uniform(0.1, 1.0, size=(3, n_features))
    for name in ("transform", "predict", "decision_function", "__call__"):
        method = getattr(model, name, None)
        if callable(method):
            try:
                with np.errstate(all="ignore"):
                    method(X)
            except Exception:
                continue
