# SPDX-License-Identifier: Apache-2.0
#
# The headers of others that most files include: read once for each target,
# which halves the time of a build. Our own headers are not among them, so a
# file still has to include what it uses of ours; the preset "dev" goes without
# and so finds what is missing of theirs.
set(STROP_PRECOMPILED
  <fmt/format.h>
  <algorithm> <array> <charconv> <cmath> <cstddef> <cstdint> <cstring>
  <filesystem> <functional> <limits> <map> <memory> <numeric> <optional> <set>
  <span> <string> <string_view> <tuple> <unordered_map> <utility> <variant>
  <vector>)

# ccache takes precompiled headers of GCC only with this flag, and with
# "pch_defines,time_macros" in CCACHE_SLOPPINESS.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND
   NOT CMAKE_DISABLE_PRECOMPILE_HEADERS)
  target_compile_options(strop_options INTERFACE -fpch-preprocess)
endif()
