# SPDX-License-Identifier: Apache-2.0
#
# `cmake --install`: libstrop, its headers, and the two ways to find them,
# find_package(Strop) and pkg-config. The strop program adds itself.
include(CMakePackageConfigHelpers)

install(TARGETS strop EXPORT StropTargets
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/strop DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT StropTargets NAMESPACE strop::
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Strop)

configure_package_config_file(
  cmake/StropConfig.cmake.in ${PROJECT_BINARY_DIR}/StropConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Strop)
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/StropConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/StropConfig.cmake
  ${PROJECT_BINARY_DIR}/StropConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Strop)

set(STROP_PRIVATE_LIBS "-lhwy -lpthread")
if(STROP_WITH_ONEDNN)
  string(PREPEND STROP_PRIVATE_LIBS "-ldnnl -lgomp ")
endif()
configure_file(cmake/strop.pc.in ${PROJECT_BINARY_DIR}/strop.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/strop.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
