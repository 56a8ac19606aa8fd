# make deb: a package with the shared libraries and one to build against them.
set(abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(runtime_package liboutbox${abi})
set(CPACK_PACKAGE_NAME outbox)
set(CPACK_PACKAGE_CONTACT "The outbox authors <outbox@packages.debian.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "transactional outbox for C++")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_COMPONENTS_ALL runtime development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME ${runtime_package})
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "Shared libraries. Events are written in the database transaction of the
change that they tell of, and delivered after the commit: at least once, and
never for a transaction that rolled back.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME liboutbox-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${runtime_package} (= ${PROJECT_VERSION}), libsqlite3-dev, libpq-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS nlohmann-json3-dev)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "What a program needs to be built with the outbox: headers, CMake package and
pkg-config files.")

# What every Debian package must carry.
function(outbox_debian_papers component package)
  set(papers ${PROJECT_BINARY_DIR}/papers/${package})
  file(MAKE_DIRECTORY ${papers})
  execute_process(COMMAND gzip -9nc ${PROJECT_SOURCE_DIR}/packaging/debian/changelog
    OUTPUT_FILE ${papers}/changelog.gz COMMAND_ERROR_IS_FATAL ANY)
  install(FILES ${papers}/changelog.gz ${PROJECT_SOURCE_DIR}/packaging/debian/copyright
    DESTINATION share/doc/${package} COMPONENT ${component})
endfunction()
outbox_debian_papers(runtime ${runtime_package})
outbox_debian_papers(development liboutbox-dev)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/debian/liboutbox0.1.lintian-overrides
  DESTINATION share/lintian/overrides RENAME ${runtime_package} COMPONENT runtime)
include(CPack)
