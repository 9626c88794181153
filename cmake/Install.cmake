# `cmake --install` installs the library, its headers, the command line and the files for find_package(telar).
# A program outside this tree then links only telar::telar (examples/cpp).

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The headers require C++20.
target_compile_features(telar PUBLIC cxx_std_20)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/telar)

install(TARGETS telar EXPORT telar ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS telar-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET telar-weave)
  install(TARGETS telar-weave LIBRARY DESTINATION lib/telar)
endif()
if(TARGET telar-cuda)
  install(TARGETS telar-cuda LIBRARY DESTINATION lib/telar)
endif()
install(DIRECTORY telar DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "cli" EXCLUDE PATTERN "weave" EXCLUDE PATTERN "device/cuda" EXCLUDE)
install(EXPORT telar NAMESPACE telar:: FILE telar-targets.cmake DESTINATION ${package})

configure_package_config_file(cmake/telar-config.cmake.in ${CMAKE_BINARY_DIR}/telar-config.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/telar-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/telar-config.cmake ${CMAKE_BINARY_DIR}/telar-config-version.cmake
  DESTINATION ${package})
