# make deb: the shared libraries, what is needed to build against them, the tool, and its service.
if(NOT OUTBOX_SCDOC)
  message(FATAL_ERROR "the package of the tool has manual pages: scdoc is needed to make them")
endif()
set(abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
set(runtime_package liboutbox${abi})
set(CPACK_PACKAGE_NAME outbox)
set(CPACK_PACKAGE_CONTACT "The outbox authors <outbox@packages.debian.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "transactional outbox for C++")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_COMPONENTS_ALL runtime development tool relay)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
# The tool needs the libraries of the runtime package, which is not installed when its own package is made.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS)
foreach(folder core sql memory sqlite postgres mysql redis open_store sinks sinks/kafka sinks/webhook config prometheus)
  list(APPEND CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/src/${folder})
endforeach()
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
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${runtime_package} (= ${PROJECT_VERSION}), libsqlite3-dev, libpq-dev, libmariadb-dev, libhiredis-dev, librdkafka-dev, libcurl4-openssl-dev, libssl-dev, prometheus-cpp-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_RECOMMENDS nlohmann-json3-dev)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "What a program needs to be built with the outbox: headers, CMake package and
pkg-config files.")

set(CPACK_DEBIAN_TOOL_PACKAGE_NAME outbox)
set(CPACK_DEBIAN_TOOL_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_TOOL_PACKAGE_DEPENDS "${runtime_package} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_TOOL_DESCRIPTION "The program that delivers the events of outboxes and looks after their
tables. It publishes what services write, to Kafka, to webhooks or to a file,
as a configuration says; it tells what waits, what fails and why, and repeats,
cancels or deletes events.")

set(CPACK_DEBIAN_RELAY_PACKAGE_NAME outbox-relay)
set(CPACK_DEBIAN_RELAY_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_RELAY_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_RELAY_PACKAGE_DEPENDS "outbox (>= ${PROJECT_VERSION}), systemd")
set(CPACK_DEBIAN_RELAY_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_RELAY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/relay/postinst
  ${PROJECT_SOURCE_DIR}/packaging/relay/conffiles)
set(CPACK_COMPONENT_RELAY_DESCRIPTION "Runs the outbox relay as a service of systemd, with a user of its own. It
comes with a commented sample of the configuration.")

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
outbox_debian_papers(tool outbox)
outbox_debian_papers(relay outbox-relay)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/relay/outbox-relay.service DESTINATION /lib/systemd/system COMPONENT relay)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/relay/outbox-relay.sysusers DESTINATION /usr/lib/sysusers.d
  RENAME outbox-relay.conf COMPONENT relay)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/relay/relay.toml
  ${PROJECT_SOURCE_DIR}/packaging/relay/kafka.toml ${PROJECT_SOURCE_DIR}/packaging/relay/polled-outbox.toml DESTINATION /etc/outbox COMPONENT relay)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/debian/liboutbox0.1.lintian-overrides
  DESTINATION share/lintian/overrides RENAME ${runtime_package} COMPONENT runtime)
include(CPack)
