# Catch2 3 where the distribution has it, else 2; tests include it through tests/support/catch.h.
find_package(Catch2 REQUIRED)
add_library(onecopy_catch_main INTERFACE)
if(Catch2_VERSION VERSION_GREATER_EQUAL 3)
  target_link_libraries(onecopy_catch_main INTERFACE Catch2::Catch2WithMain)
else()
  add_library(onecopy_catch2_main STATIC "${PROJECT_SOURCE_DIR}/tests/support/catch_main.cc")
  target_link_libraries(onecopy_catch2_main PUBLIC Catch2::Catch2)
  target_link_libraries(onecopy_catch_main INTERFACE onecopy_catch2_main)
endif()

# onecopy_test(SUITE NAME SOURCES file… [DEPENDS folder…] [LINKS library…])
#
# One test program of a suite: <build>/bin/tests/<suite>/<name>, which tests/run finds by its place.
function(onecopy_test suite name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINKS" ${ARGN})
  set(target onecopy_test_${suite}_${name})
  add_executable(${target} ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin/tests/${suite}")
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE onecopy_strict onecopy_catch_main ${ARG_LINKS})
  foreach(dependency IN LISTS ARG_DEPENDS)
    onecopy_target_name("${dependency}" dependency_target)
    target_link_libraries(${target} PRIVATE ${dependency_target})
  endforeach()
  add_test(NAME ${suite}.${name} COMMAND ${target})
  set_tests_properties(${suite}.${name} PROPERTIES LABELS ${suite})
endfunction()
