# SPDX-License-Identifier: Apache-2.0
#
# The targets of the build folder STROP_PREBUILT, and what they link.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(hwy REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_package(dnnl QUIET)
include(${STROP_PREBUILT}/StropInternal.cmake)
