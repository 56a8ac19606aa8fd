# outbox_library(<component> SOURCES … HEADERS … [PUBLIC …] [PRIVATE …] [REQUIRES …]): one shape for every component.
#
# Target outbox_<component>, alias outbox::<component>, its own export set and pkg-config file, hidden symbols.
# HEADERS are public, relative to include/. PUBLIC and PRIVATE are what it links; REQUIRES names the components
# and pkg-config modules that the .pc file mentions.
include(GNUInstallDirs)
include(GenerateExportHeader)

set(OUTBOX_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wimplicit-fallthrough)

# What only this project's own targets are built with: warnings and sanitizers never reach a consumer.
function(outbox_own_flags target)
  target_compile_options(${target} PRIVATE ${OUTBOX_WARNINGS})
  if(CMAKE_UNITY_BUILD)  # sources that are compiled together look like headers to this warning
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  if(OUTBOX_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${OUTBOX_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${OUTBOX_SANITIZE})
    # GCC takes the sanitizers' own code for uses of uninitialized values.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    # Tests and the tool compile in half the time without these two, and the library itself has them.
    if(OUTBOX_SANITIZE MATCHES undefined AND CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/(tests|apps)")
      target_compile_options(${target} PRIVATE -fno-sanitize=null,alignment)
    endif()
  endif()
endfunction()

function(outbox_library component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;PUBLIC;PRIVATE;REQUIRES")
  set(target outbox_${component})
  set(include_dir ${PROJECT_SOURCE_DIR}/include)
  set(generated_dir ${PROJECT_BINARY_DIR}/include)
  list(TRANSFORM arg_HEADERS PREPEND ${include_dir}/)

  add_library(${target})
  add_library(outbox::${component} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  outbox_own_flags(${target})
  # Every public header includes one of these first, so the language is checked before any of it is read.
  set(check_language "#include <outbox/detail/language.hpp>")
  generate_export_header(${target} BASE_NAME outbox_${component} CUSTOM_CONTENT_FROM_VARIABLE check_language
    EXPORT_FILE_NAME ${generated_dir}/outbox/detail/${component}_export.hpp)
  target_sources(${target} PRIVATE ${arg_SOURCES}
    PUBLIC FILE_SET HEADERS BASE_DIRS ${include_dir} ${generated_dir}
      FILES ${arg_HEADERS} ${generated_dir}/outbox/detail/${component}_export.hpp)
  target_link_libraries(${target} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${component} OUTPUT_NAME outbox-${component}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "$ORIGIN"  # a component finds those that it needs beside it, wherever the tree is
    UNITY_BUILD_BATCH_SIZE 20  # with CMAKE_UNITY_BUILD; few, and still one for each of several cores
    VERIFY_INTERFACE_HEADER_SETS ${PROJECT_IS_TOP_LEVEL})

  # Only the library is counted: what links it has the counters in it, and writes them down when it ends.
  if(OUTBOX_COVERAGE)
    target_compile_options(${target} PRIVATE --coverage -fprofile-update=atomic)
    target_link_options(${target} PUBLIC --coverage)
  endif()

  # The standard headers that ours need, compiled once per component. Only for our own builds, and not where sources are
  # compiled many at a time: they are read once then, anyway.
  if(OUTBOX_PRECOMPILE_HEADERS AND NOT CMAKE_UNITY_BUILD)
    target_precompile_headers(${target} PRIVATE <algorithm> <chrono> <functional> <map> <memory> <mutex> <optional> <span>
      <stop_token> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>)
  endif()

  outbox_install(${component} "-L\${libdir} -loutbox-${component}" ${arg_REQUIRES})
endfunction()

# outbox_headers(<component> HEADERS … [LINK …] [REQUIRES …]): a component that has headers only.
function(outbox_headers component)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LINK;REQUIRES")
  set(target outbox_${component})
  list(TRANSFORM arg_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/)
  add_library(${target} INTERFACE)
  add_library(outbox::${component} ALIAS ${target})
  target_sources(${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/include FILES ${arg_HEADERS})
  target_link_libraries(${target} INTERFACE ${arg_LINK})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  outbox_install(${component} "" ${arg_REQUIRES})
endfunction()

# outbox_install(<component> <libs of its .pc file> [required components and pkg-config modules …])
function(outbox_install component pc_libs)
  if(NOT OUTBOX_INSTALL)
    return()
  endif()
  install(TARGETS outbox_${component} EXPORT outbox-${component}-targets
    LIBRARY COMPONENT runtime NAMELINK_COMPONENT development
    ARCHIVE COMPONENT development
    FILE_SET HEADERS COMPONENT development)
  install(EXPORT outbox-${component}-targets NAMESPACE outbox:: COMPONENT development
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/outbox)
  list(JOIN ARGN " " pc_requires)
  set(pc_component ${component})
  # Relative, so that an installed tree can be moved.
  file(RELATIVE_PATH pc_up_to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" pc_up_to_prefix ${pc_up_to_prefix})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/outbox.pc.in outbox-${component}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/outbox-${component}.pc COMPONENT development
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
