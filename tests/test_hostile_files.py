"""Files that are cut short, damaged, oversized or forged give one clear error, in bounded memory and time."""

import json
import random
import struct
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bochner
from bochner.draws.linear_maps import Dense
from bochner.persistence.containers import MAX_HEADER, ModelFileError
from forgeries import forge, mutate, open_file, use

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*.safetensors"))
BOUNDED = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.fixture(scope="module")
def golden():
    return (Path(__file__).parent / "golden" / "KernelRidge-nystrom.safetensors").read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


def refused(folder, data):
    path = folder / "model"
    path.write_bytes(data)
    with pytest.raises(ModelFileError) as caught:
        bochner.load(path)
    return str(caught.value)


def test_every_truncation_is_refused(golden, folder):
    for length in {*range(0, len(golden), 37), *range(12), len(golden) - 1}:
        refused(folder, golden[:length])
    refused(folder, golden + b"\0")


@BOUNDED
@given(st.integers(0, 10**6), st.integers(0, 7))
def test_every_flipped_bit_is_refused(golden, folder, place, bit):
    data = bytearray(golden)
    data[place % len(data)] ^= 1 << bit
    refused(folder, bytes(data))


@BOUNDED
@given(st.binary(max_size=400))
def test_noise_is_refused(folder, data):
    refused(folder, data)


def with_header(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


METADATA = {"__metadata__": {"bochner": "{}", "digest": ""}}


def tensor(dtype="F64", shape=(1,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cut short"),
        (struct.pack("<Q", 2**63) + b"{}", "cut short"),
        (with_header(b" " * 100), "JSON"),
        (with_header(b"[" * 100_000), "JSON"),
        (with_header(b'{"a":' * 50_000), "JSON"),
        (with_header(b"[]"), "object"),
        (with_header(b'{"a":1,"a":2}'), "twice"),
        (with_header(b'{"a":NaN}'), "JSON"),
        (with_header(b'{"a":' + b"9" * 10_000 + b"}"), "JSON"),
        (with_header(b"\xff\xfe{}"), "JSON"),
        (with_header({}), "not a bochner model"),
        (with_header({"__metadata__": 3}), "not a bochner model"),
        (with_header({"__metadata__": {"bochner": 3, "digest": ""}}), "not a bochner model"),
        (with_header({**METADATA, "a": 3}), "described"),
        (with_header({**METADATA, "a": tensor("F65")}), "unknown type"),
        (with_header({**METADATA, "a": tensor(shape=(-1,))}), "is invalid"),
        (with_header({**METADATA, "a": tensor(shape=(1.5,))}), "is invalid"),
        (with_header({**METADATA, "a": tensor(shape=(True,))}), "is invalid"),
        (with_header({**METADATA, "a": tensor(shape=(2**61, 8))}), "the size of its shape"),
        (with_header({**METADATA, "a": tensor(shape=(2,))}, bytes(8)), "the size of its shape"),
        (with_header({**METADATA, "a": tensor(shape=(2**40,), offsets=(0, 2**43))}), "its header says"),
        (with_header({**METADATA, "a": tensor(offsets=(8, 16))}, bytes(16)), "begin"),
        (with_header({**METADATA, "a": tensor(), "b": tensor()}, bytes(8)), "begin"),
        (with_header({**METADATA, "a": tensor(), "b": tensor(offsets=(4, 12))}, bytes(12)), "begin"),
        (with_header({**METADATA, "a": tensor(offsets=(8, 0))}), "size"),
        (with_header(METADATA, bytes(8)), "its header says"),
        (with_header(METADATA), "checksum"),
    ],
)
def test_lying_headers_are_refused(data, message, folder):
    assert message in refused(folder, data)


def test_oversized_headers_are_refused_without_being_parsed(folder):
    path = folder / "large"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", MAX_HEADER + 1))
        file.truncate(MAX_HEADER + 100)
    with pytest.raises(ModelFileError, match="at most"):
        bochner.load(path)
    many = with_header(b'{"a":[' + b"[]," * (1 << 20) + b"[]]}")
    start = time.perf_counter()
    tracemalloc.start()
    assert "values" in refused(folder, many)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * len(many)
    assert time.perf_counter() - start < 60.0  # hours, if it were parsed again and again


@pytest.fixture
def about_and_tensors(golden, folder):
    path = folder / "golden"
    path.write_bytes(golden)
    return open_file(path)


def forged(folder, about, tensors):
    path = folder / "forged"
    forge(path, about, tensors)
    with pytest.raises(ModelFileError) as caught:
        bochner.load(path)
    return str(caught.value)


def test_unknown_classes_versions_and_kinds(about_and_tensors, folder):
    about, tensors = about_and_tensors
    for name in ("os.system", "Nothing", "bochner.estimators.KernelRidge", 3, ["Key"]):
        model = {"class": name, "fields": {}}
        assert "class" in forged(folder, {**about, "model": model}, tensors)
    assert "abstract" in forged(folder, {**about, "model": {"class": "Kernel", "fields": {}}}, {})
    assert "later bochner" in forged(folder, {**about, "format": 99}, tensors)
    for version in (None, "1", 0, True, 1.0):
        assert "format" in forged(folder, {**about, "format": version}, tensors)
    assert "unknown kind" in forged(folder, {**about, "model": {"call": "os.system"}}, tensors)
    for name in ("os", "frompyfunc", "__import__", "vectorize"):
        assert "NumPy has no" in forged(folder, {**about, "model": {"ufunc": name}}, {})


def test_attributes_that_would_shadow_methods(folder):
    for name in ("predict", "component_weights_", "__class__", "_check_parameters", "__dict__", "no such", "nothing"):
        model = {"class": "KernelRidge", "fields": {name: 1}}
        forged(folder, {"format": 1, "model": model}, {})


def signs(shape, fill=1):
    return np.full(shape, fill, np.int8)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("HadamardBlocks", {"n_features": 9, "signs": signs((1, 3, 8)), "lengths": np.ones(8, np.float32)}),
        ("HadamardBlocks", {"n_features": 6, "signs": signs((1, 3, 6)), "lengths": np.ones(6, np.float32)}),
        ("HadamardBlocks", {"n_features": 8, "signs": signs((1, 3, 8)), "lengths": np.ones(9, np.float32)}),
        ("HadamardBlocks", {"n_features": 8, "signs": signs((1, 2, 8)), "lengths": np.ones(8, np.float32)}),
        ("HadamardBlocks", {"n_features": 8, "signs": signs((1, 3, 8)), "lengths": np.ones(8)}),
        ("HadamardBlocks", {"n_features": "8", "signs": signs((1, 3, 8)), "lengths": np.ones(8, np.float32)}),
        (
            "FastfoodBlocks",
            {
                "n_features": 4,
                "signs": signs((1, 4)),
                "permutations": np.array([[0, 1, 2, 4]], np.int32),
                "gains": np.ones((1, 4), np.float32),
                "lengths": np.ones(4, np.float32),
            },
        ),
        (
            "FastfoodBlocks",
            {
                "n_features": 4,
                "signs": signs((1, 4)),
                "permutations": np.array([[0, 1, 2, -1]], np.int32),
                "gains": np.ones((1, 4), np.float32),
                "lengths": np.ones(4, np.float32),
            },
        ),
        (
            "SparseRows",
            {
                "indptr": np.array([0, 1, 2], np.int32),
                "indices": np.array([0, 5], np.int32),
                "signs": signs(2),
                "lengths": np.ones(5),
            },
        ),
        (
            "SparseRows",
            {
                "indptr": np.array([0, 9, 2], np.int32),
                "indices": np.array([0, 1], np.int32),
                "signs": signs(2),
                "lengths": np.ones(5),
            },
        ),
        ("PickedRows", {"n_features": 3, "picks": np.array([0, 3]), "lengths": np.ones(2)}),
        (
            "SubsampledHadamard",
            {"n_features": 4, "signs": signs((1, 4)), "picks": np.array([4], np.int32), "lengths": np.ones(1)},
        ),
        ("Chained", {"outer": Dense(np.ones((2, 3))), "inner": Dense(np.ones((2, 3)))}),
        ("Dense", {"matrix": np.ones(3)}),
        ("Signs", {"signs": signs((2, 3)), "lengths": np.ones(3)}),
    ],
)
def test_operators_with_wrong_shapes_or_indices(name, fields, folder):
    from bochner.persistence.codecs import Encoder

    encoder = Encoder()
    encoded = {key: encoder.encode(value, key) for key, value in fields.items()}
    forged(folder, {"format": 1, "model": {"class": name, "fields": encoded}}, encoder.tensors)


def test_sparse_matrices_that_lead_outside(folder):
    tensors = {
        "t0": np.ones(2),
        "t1": np.array([0, 7], np.int32),
        "t2": np.array([0, 1, 2], np.int32),
    }
    model = {
        "sparse": "csr_matrix",
        "shape": [2, 3],
        "data": {"array": "t0"},
        "indices": {"array": "t1"},
        "indptr": {"array": "t2"},
    }
    assert "out of bounds" in forged(folder, {"format": 1, "model": model}, tensors)


def test_statistics_that_would_allocate_much(folder):
    tensors = {"t0": np.empty((10**9, 0))}
    fields = {"moment": {"array": "t0"}, "gram": {"array": "t0"}}
    forged(folder, {"format": 1, "model": {"class": "RidgeStatistics", "fields": fields}}, tensors)
    only = {"format": 1, "model": {"class": "RidgeStatistics", "fields": {"moment": {"array": "t0"}}}}
    forged(folder, only, tensors)


def test_one_tensor_named_over_and_over(folder):
    tensors = {"t0": np.zeros(1 << 20, np.uint8), "t1": np.zeros(200_000), "t2": np.zeros((631, 0))}
    casts = [{"array": "t0", "dtype": "<i8", "x": i} for i in range(500)]
    bits = [{"signs": "t0", "shape": [1 << 23], "x": i} for i in range(500)]
    keys = [{"class": "PickedRows", "fields": {"n_features": 9, "picks": casts[0], "lengths": casts[0]}}] * 999
    for many in (casts, bits, keys):
        start = time.perf_counter()
        tracemalloc.start()
        assert "too often" in forged(folder, {"format": 1, "model": {"tuple": many}}, tensors)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 400 << 20
        assert time.perf_counter() - start < 60.0


@settings(BOUNDED, max_examples=250)
@given(st.integers(0, len(GOLDEN) - 1), st.integers(0, 2**32))
def test_forged_models_load_or_are_refused(folder, number, seed):
    about, tensors = open_file(GOLDEN[number])
    choose = random.Random(seed).randrange
    for _ in range(1 + choose(3)):
        mutate(about, tensors, choose)
    path = folder / "forged"
    try:
        forge(path, about, tensors)
    except KeyError:  # no such type of tensor
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = bochner.load(path)
        except ModelFileError:
            return
        use(model, 3)
