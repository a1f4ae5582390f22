#!/usr/bin/env python3
"""Writes the array files of this folder with the reference writer of each format.

Needs numpy, ml_dtypes, safetensors, gguf and h5py (PyPI)."""
import gguf
import h5py
import ml_dtypes
import numpy as np
import safetensors.numpy
from numpy.lib import format as npy

values = np.array([[1, 2, 3], [4, 5, 6]], "<f4")
cube = np.arange(24, dtype="<u2").reshape(2, 3, 4)


def write(name, array, version):
    with open(name, "wb") as stream:
        npy.write_array(stream, array, version=version)


write("f4-version-1.npy", values, (1, 0))
write("f4-version-2.npy", values, (2, 0))
write("f4-version-3.npy", values, (3, 0))
write("f4-fortran.npy", np.asfortranarray(values), (1, 0))
write("u2-fortran-cube.npy", np.asfortranarray(cube), (1, 0))
write("f2.npy", np.array([0.5, -2], "<f2"), (1, 0))
write("f8.npy", np.array(0.1), (1, 0))
write("u1.npy", np.array([2, 7, 10, 15], "u1"), (1, 0))
np.save("v1.npy", np.array([1, 6, -1, -6], ml_dtypes.float4_e2m1fn))
np.save("v2.npy", np.array([1, -2], ml_dtypes.bfloat16))
write("f4-big-endian.npy", values.astype(">f4"), (1, 0))
write("structured.npy", np.zeros(2, [("a", "<f4"), ("b", "<i2")]), (1, 0))
write("object.npy", np.array([None]), (1, 0))
np.savez("stored.npz", w=values, b=np.array([0.5, -2], "<f2"))
np.savez_compressed("deflated.npz", w=np.asfortranarray(values))

safetensors.numpy.save_file(
    {"w": values, "h": np.array([0.5, -2], "<f2"), "b": np.array([1, -2], ml_dtypes.bfloat16), "d": np.array([0.1]),
     "codes": np.array([[0x12, 0xF0]], "u1"), "empty": np.zeros((0, 4), "<f4"), "scalar": np.array(7, "<i4")},
    "types.safetensors", metadata={"format": "np"})

writer = gguf.GGUFWriter("types.gguf", "test")
writer.add_string("general.name", "sample")
writer.add_uint32("test.count", 7)
writer.add_int8("test.negative", -3)
writer.add_float32("test.ratio", 0.5)
writer.add_bool("test.flag", True)
writer.add_array("test.words", ["a", "bc"])
writer.add_array("test.numbers", [1, 2, 3])
writer.add_tensor("w", values)
writer.add_tensor("h", np.array([0.5, -2], "<f2"))
writer.add_tensor("b", np.array([0x3F80, 0xC000], "<u2").view("u1"), raw_dtype=gguf.GGMLQuantizationType.BF16)
writer.add_tensor("mx", np.arange(34, dtype="u1").reshape(1, 34), raw_dtype=gguf.GGMLQuantizationType.MXFP4)
writer.add_tensor("nv", np.arange(72, dtype="u1").reshape(2, 36), raw_dtype=gguf.GGMLQuantizationType.NVFP4)
writer.add_tensor("q4", np.arange(18, dtype="u1").reshape(1, 18), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
writer.write_header_to_file()
writer.write_kv_data_to_file()
writer.write_tensors_to_file()
writer.close()

with h5py.File("types.h5", "w") as file:
    file["g/f32"] = np.array([[1, 2], [3, 4]], "<f4")
    file["g/f32-big-endian"] = np.array([[1, 2], [3, 4]], ">f4")
    file["f16"] = np.array([0.5], "<f2")
    file["f64"] = np.array(0.1)
    file["u8"] = np.arange(3, dtype="u1")
    file["text"] = ["a", "b"]
    file.attrs["note"] = "hello"

    def custom(name, codes, fields, precision, bias):
        size = codes.dtype.itemsize
        kind = h5py.h5t.IEEE_F32LE.copy()
        kind.set_fields(*fields)
        if precision is not None:
            kind.set_precision(precision)
        kind.set_size(size)
        kind.set_ebias(bias)
        data = h5py.h5d.create(file.id, name, kind, h5py.h5s.create_simple((len(codes),)))
        data.write(h5py.h5s.ALL, h5py.h5s.ALL, codes, mtype=kind)

    # sign position, exponent position and bits, mantissa position and bits; E2M1 as newer HDF5 defines it
    custom(b"fp4", np.array([1, 15, 6], "u1"), (3, 1, 2, 0, 1), 4, 1)
    custom(b"bf16", np.array([0x3F80, 0xC000], "<u2"), (15, 7, 8, 0, 7), None, 127)
