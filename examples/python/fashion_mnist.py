# SPDX-License-Identifier: Apache-2.0
"""The Fashion-MNIST images of Debian's package dataset-fashion-mnist, as arrays."""
import gzip
import pathlib

import numpy as np

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read(name):
    """An IDX file: its shape stands in the head."""
    raw = gzip.decompress((DATA / f"{name}.gz").read_bytes())
    rank = raw[3]
    shape = np.frombuffer(raw, ">i4", rank, 4)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def pictures(part, count=None):
    """The first of "train" or "t10k": images float32 [n, 1, 28, 28] from 0 to 1, labels int64 [n]."""
    images = read(f"{part}-images-idx3-ubyte")[:count, None].astype(np.float32) / 255
    labels = read(f"{part}-labels-idx1-ubyte")[:count].astype(np.int64)
    return images, labels
