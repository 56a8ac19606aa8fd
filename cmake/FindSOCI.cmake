# find_package(SOCI COMPONENTS sqlite3 postgresql mysql): targets SOCI::core and SOCI::<backend>. For the tests and the
# examples; Debian's package has no CMake files. SOCI's headers need those of Boost, which that package does not bring.
find_path(SOCI_INCLUDE_DIR soci/soci.h)
find_path(SOCI_BOOST_INCLUDE_DIR boost/version.hpp)
find_library(SOCI_core_LIBRARY soci_core)
foreach(backend IN LISTS SOCI_FIND_COMPONENTS)
  find_library(SOCI_${backend}_LIBRARY soci_${backend})
  if(SOCI_${backend}_LIBRARY)
    set(SOCI_${backend}_FOUND TRUE)
  endif()
  mark_as_advanced(SOCI_${backend}_LIBRARY)
endforeach()
mark_as_advanced(SOCI_INCLUDE_DIR SOCI_BOOST_INCLUDE_DIR SOCI_core_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SOCI
  REQUIRED_VARS SOCI_core_LIBRARY SOCI_INCLUDE_DIR SOCI_BOOST_INCLUDE_DIR HANDLE_COMPONENTS)
if(NOT SOCI_FOUND)
  return()
endif()
foreach(part IN ITEMS core LISTS SOCI_FIND_COMPONENTS)
  if(NOT TARGET SOCI::${part})
    add_library(SOCI::${part} UNKNOWN IMPORTED)
    set_target_properties(SOCI::${part} PROPERTIES IMPORTED_LOCATION ${SOCI_${part}_LIBRARY}
      INTERFACE_INCLUDE_DIRECTORIES "${SOCI_INCLUDE_DIR};${SOCI_BOOST_INCLUDE_DIR}")
  endif()
endforeach()
