#!/usr/bin/env python3
"""Writes the array files of this folder with numpy, the reference writer of the format."""
import numpy as np
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
write("v1.npy", np.array([2, 7, 10, 15], "u1").view("V1"), (1, 0))     # as ml_dtypes leaves float4_e2m1fn
write("v2.npy", np.array([0x3F80, 0xC000], "<u2").view("V2"), (1, 0))  # as ml_dtypes leaves bfloat16
write("f4-big-endian.npy", values.astype(">f4"), (1, 0))
write("structured.npy", np.zeros(2, [("a", "<f4"), ("b", "<i2")]), (1, 0))
write("object.npy", np.array([None]), (1, 0))
np.savez("stored.npz", w=values, b=np.array([0.5, -2], "<f2"))
np.savez_compressed("deflated.npz", w=np.asfortranarray(values))
