"""Opens the sample of t-io-result.c with h5py and with both engines of xarray."""
import sys
import warnings

import h5py
import netCDF4  # noqa: F401  (imported here because importing it warns)
import numpy as np
import xarray

path = sys.argv[1]
warnings.simplefilter("error")

with h5py.File(path) as file:
    assert all(isinstance(item, h5py.Group) for item in file.values()), "the root holds more than groups"
    assert file.attrs["title"] == "a sample" and isinstance(file.attrs["title"], str)
    assert file.attrs["source"].startswith("nibble ")
    about = file["provenance"].attrs
    assert about["command_line"] == "nibble bias 'it'\\''s here.npy' --json", about["command_line"]
    assert file.attrs["history"] == about["time"] + " " + about["command_line"]
    assert about["threads"] == 2 and about["ranks"] == 1 and about["instruction_set"] == "avx2" and about["cpu"]
    formats = file["provenance/formats"]
    assert list(formats["name"].asstr()) == ["elements/e2m1"] and list(formats["text"].asstr()) == ["name: e2m1\n"]
    assert list(file["provenance/seeds/value"].asstr()) == ["18446744073709551615"]
    inputs = file["provenance/inputs"]
    # XXH3-128 of "abc", from the program xxhsum -H2
    assert list(inputs["xxh3_128"].asstr()) == ["06b05ab6733a618578af5f94892f3950"], inputs["xxh3_128"][:]
    assert list(inputs["bytes"]) == [3]
    assert "hdf5" in list(file["provenance/libraries/name"].asstr())
    packed = file["codes/w/packed"]
    assert packed.dtype == np.uint8 and list(packed) == [0x12, 0xF0]
    assert packed.attrs["packing"] == "low-nibble-first" and packed.attrs["cols"] == 4
    assert file["levels/value"].dtype == np.float32

groups = ["bias", "empty", "levels", "codes/w", "provenance", "provenance/formats", "provenance/inputs", "provenance/libraries"]
for engine in ("h5netcdf", "netcdf4"):
    opened = {group: xarray.open_dataset(path, group=group, engine=engine).load() for group in groups}
    bias = opened["bias"]
    assert list(bias["tensor"].values) == ["layers.0.w", "\u00e4\u20ac", "broken??"], bias["tensor"].values
    assert list(bias["count"].values) == [0, 1, -(2**63)] and bias["count"].dtype == np.int64
    sqnr = bias["sqnr_db"].values
    assert sqnr[0] == 20.5 and np.signbit(sqnr[1]) and np.isnan(sqnr[2])
    assert bias["sqnr_db"].attrs["units"] == "dB"
    assert opened["empty"].sizes == {"row": 0}
    levels = opened["levels"]
    assert float(levels["bias"].sel(quantizer="ocp-mxfp4", level=0.5)) == 5
    assert levels["bias"].dims == ("quantizer", "level") and "DIMENSION_LABELS" not in levels["bias"].attrs
    assert opened["provenance"].attrs["version"]
    print(engine, "ok")
