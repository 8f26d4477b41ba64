#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the #include lines of the tree against its layers.

A file may include its own room and rooms of lower layers, never another room
of the same layer or of a higher one. Third-party headers stay behind fences.
ARCHITECTURE.md tells the reasons; the tables below are the law.
"""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The rooms and their layers. All files of a room are in its folder, but for
# the public headers, which have their own table.
LAYERS = {
    "base": 0,
    "tensor": 1,
    "graph": 2,
    "ops": 3,
    "passes": 4,
    "runtime": 4,
    "autodiff": 4,
    "checkpoint": 5,
    "providers": 5,
    "training": 6,
    "artifacts": 6,
    "function": 7,
    "capi": 8,
    "tools": 9,
}

# Public headers by room. A new header needs a line here.
PUBLIC = {
    "error.h": "base",
    "platform.h": "base",
    "random.h": "base",
    "environment.h": "base",
    "tensor.h": "tensor",
    "op.h": "ops",
    "execution_provider.h": "ops",
    "session_options.h": "runtime",
    "checkpoint_state.h": "checkpoint",
    "module.h": "training",
    "optimizer.h": "training",
    "lr_scheduler.h": "training",
    "training_session.h": "training",
    "artifacts.h": "artifacts",
    "function.h": "function",
    "strop.h": "training",
    "c_api.h": "capi",
}

# Headers that say no more than the plain types of the rooms below them, and
# that base may therefore use.
LOW_HEADERS = {"tensor.h": "base"}

# Pairs that the layers would allow and we do not: a build that only trains
# holds neither gradients nor the maker of artifacts.
FORBIDDEN = {("training", "autodiff"), ("training", "artifacts")}

# Third parties: a pattern of their headers, and of the files that may use
# them.
FENCES = [
    (r"protozero/", r"src/graph/onnx_io\w*\.(cc|h)$"),
    (r"flatbuffers/|checkpoint_generated\.h$", r"src/checkpoint/"),
    (r"hwy/", r"src/providers/cpu/(simd|gemm|conv|recurrent)/"),
    (r"(oneapi/)?dnnl", r"src/providers/cpu/onednn/"),
    (r"(CLI|nlohmann)/|zlib\.h$", r"tools/"),
    (r"fmt/", r"(src|tools)/"),
    # What one kind of system has only.
    (r"(unistd|fcntl|pthread|sched)\.h$|sys/", r"\w+/\w+/\w+_posix\.cc$"),
    (r"windows\.h$", r"\w+/\w+/\w+_windows\.cc$"),
]

# Headers of the language and of systems that anything under src may use.
SYSTEM = re.compile(r"[a-z_0-9]+$|(sys/)?[a-z_]+\.h$|immintrin\.h$")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def room_of_file(path):
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] == "src":
        return parts[1]
    if parts[0] == "include":
        return PUBLIC.get(parts[-1])
    return parts[0]


def room_of_header(header, includer):
    """The room of one of our headers, or None for anybody else's."""
    parts = pathlib.PurePosixPath(header).parts
    if parts[0] == "strop" and len(parts) == 2:
        if room_of_file(includer) == "base" and parts[1] in LOW_HEADERS:
            return LOW_HEADERS[parts[1]]
        return PUBLIC.get(parts[1], "a header missing in PUBLIC")
    if len(parts) > 1 and parts[0] in LAYERS:
        return parts[0]
    return None


def problem(path, header):
    """What is wrong with `path` including `header`, or None."""
    room = room_of_file(path)
    if room not in LAYERS:
        return f"{path} belongs to no room; extend LAYERS or PUBLIC"
    for pattern, allowed in FENCES:
        if re.match(pattern, header):
            if re.match(allowed, path):
                return None
            return f"{path} includes {header} from outside its fence"
    if path.startswith("include/") and "/" in header:
        if not header.startswith("strop/"):
            return f"{path} is public and includes {header}"
    target = room_of_header(header, path)
    if target is None:
        if room == "tools" or SYSTEM.match(header):
            return None
        return f"{path} includes {header}, which has no fence"
    if target == room:
        return None
    if target not in LAYERS:
        return f"{path} includes {header}, which is {target}"
    if LAYERS[target] >= LAYERS[room]:
        return (f"{path} (layer {LAYERS[room]}) includes {header} "
                f"(layer {LAYERS[target]})")
    if (room, target) in FORBIDDEN:
        return f"{path} includes {header}: {room} does without {target}"
    return None


def sources():
    for folder in ("include", "src", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                yield path


class IncludeLayers(unittest.TestCase):
    def test_every_include_points_downwards(self):
        problems, count = [], 0
        for path in sources():
            name = path.relative_to(ROOT).as_posix()
            for line in path.read_text().splitlines():
                match = INCLUDE.match(line)
                if match:
                    count += 1
                    problems.append(problem(name, match[1]))
        self.assertGreater(count, 100)
        self.assertEqual([p for p in problems if p], [])

    def test_a_wrong_include_is_seen(self):
        for path, header in [
                ("src/base/half.cc", "graph/graph.h"),
                ("src/graph/graph.cc", "strop/op.h"),
                ("src/passes/fold.cc", "runtime/plan.h"),
                ("src/providers/cpu/a.cc", "checkpoint/parameter_store.h"),
                ("src/training/module.cc", "autodiff/differentiate.h"),
                ("src/training/module.cc", "artifacts/generate.h"),
                ("src/graph/graph.cc", "protozero/pbf_reader.hpp"),
                ("src/training/module.cc", "flatbuffers/flatbuffers.h"),
                ("src/providers/cpu/kernel_list.cc", "hwy/highway.h"),
                ("src/providers/cpu/conv/direct.cc", "dnnl.hpp"),
                ("src/graph/graph.cc", "zlib.h"),
                ("src/graph/graph.cc", "boost/any.hpp"),
                ("src/attic/old.cc", "vector"),
                ("include/strop/module.h", "fmt/format.h"),
                ("src/base/file_system.cc", "unistd.h"),
                ("tools/strop/progress.cc", "windows.h"),
                ("include/strop/module.h", "graph/graph.h"),
                ("include/strop/tensor.h", "strop/op.h"),
                ("include/strop/op.h", "strop/unknown.h"),
        ]:
            self.assertIsNotNone(problem(path, header), (path, header))

    def test_a_right_include_passes(self):
        for path, header in [
                ("src/base/half.cc", "strop/tensor.h"),
                ("src/graph/onnx_io_wire.cc", "protozero/pbf_reader.hpp"),
                ("src/providers/cpu/gemm/gemm.cc", "hwy/highway.h"),
                ("src/providers/cpu/onednn/conv.cc", "oneapi/dnnl/dnnl.hpp"),
                ("src/training/module.cc", "runtime/plan.h"),
                ("src/base/system_file_posix.cc", "sys/mman.h"),
                ("tools/strop/main.cc", "CLI/CLI.hpp"),
                ("include/strop/module.h", "strop/tensor.h"),
        ]:
            self.assertIsNone(problem(path, header), (path, header))


if __name__ == "__main__":
    unittest.main()
