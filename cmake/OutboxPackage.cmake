# The package that find_package(outbox CONFIG COMPONENTS …) loads.
include(CMakePackageConfigHelpers)

configure_package_config_file(cmake/outbox-config.cmake.in outbox-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/outbox)
# Before 1.0 a minor version may break: only the same minor is compatible.
write_basic_package_version_file(outbox-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/outbox-config.cmake ${PROJECT_BINARY_DIR}/outbox-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/outbox COMPONENT development)
