# Catch2 3 where the distribution has it, else 2; tests include it through tests/support/catch.h.
find_package(Catch2 REQUIRED)
add_library(onecopy_catch_main STATIC "${PROJECT_SOURCE_DIR}/tests/support/catch_main.cc")
target_link_libraries(onecopy_catch_main PUBLIC Catch2::Catch2 onecopy_test_pattern)

# Bytes that tests know again. Byte by byte, they take most of the time of a test that is not optimised.
add_library(onecopy_test_pattern STATIC "${PROJECT_SOURCE_DIR}/tests/support/pattern.cc")
target_include_directories(onecopy_test_pattern PRIVATE "${PROJECT_SOURCE_DIR}")
target_compile_options(onecopy_test_pattern PRIVATE -O2)
target_link_libraries(onecopy_test_pattern PRIVATE onecopy_strict)

# What nearly every test includes is read once, and not by each of them: clang takes half of their time so. (gcc takes five
# sixths, and a file of 130 MB.) A test includes what it uses all the same: the presets of gcc have none of this.
set(ONECOPY_TEST_HEADERS OFF)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_UNITY_BUILD)
  set(ONECOPY_TEST_HEADERS ON)
  file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/headers.cc" CONTENT "// Of nothing but headers.\n")
  add_library(onecopy_test_headers STATIC EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/headers.cc")
  target_include_directories(onecopy_test_headers PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(onecopy_test_headers PRIVATE onecopy_strict onecopy_catch_main onecopy_values nlohmann_json::nlohmann_json)
  set_target_properties(onecopy_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  # As of a program, and good for another checkout whose files have other times.
  target_compile_options(onecopy_test_headers PRIVATE -fPIE "SHELL:-Xclang -fno-pch-timestamp")
  target_precompile_headers(onecopy_test_headers PRIVATE
    <algorithm> <array> <atomic> <chrono> <condition_variable> <cstddef> <cstdint> <cstdlib> <cstring> <deque> <filesystem>
    <fstream> <functional> <future> <iostream> <map> <memory> <mutex> <optional> <random> <set> <span> <sstream> <string>
    <string_view> <thread> <unordered_map> <utility> <variant> <vector> <nlohmann/json.hpp>
    "${PROJECT_SOURCE_DIR}/tests/support/catch.h")
endif()

# What every target with test cases has; DEPENDS and LINKS as below.
function(onecopy_test_target target)
  cmake_parse_arguments(ARG "" "" "DEPENDS;LINKS" ${ARGN})
  if(ONECOPY_TEST_HEADERS)
    target_precompile_headers(${target} REUSE_FROM onecopy_test_headers)
  endif()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE onecopy_strict ${ARG_LINKS})
  foreach(dependency IN LISTS ARG_DEPENDS)
    onecopy_target_name("${dependency}" dependency_target)
    target_link_libraries(${target} PRIVATE ${dependency_target})
  endforeach()
endfunction()

# onecopy_test(suite name SOURCES file… [DEPENDS folder…] [LINKS library…] [NEEDS programs…] [TIME_LIMIT seconds]
#              [GUEST_KERNEL stable] [OWN_MAIN] [MOSTLY_WAITS])
#
# One test program of a suite: <build>/bin/tests/<suite>/<name>. NEEDS names the programs of ours that it starts
# (onecopyd, onecopy, …; found in $ONECOPY_BIN_DIR): they are built with it. TIME_LIMIT is for the whole program where
# tests/run's default of five minutes is not enough. GUEST_KERNEL is for a program of suite rdma that needs another
# kernel than the rest. OWN_MAIN is for what is no program of Catch2's. MOSTLY_WAITS has tests/run run the program beside
# the others of its suite.
function(onecopy_test suite name)
  cmake_parse_arguments(ARG "OWN_MAIN;MOSTLY_WAITS" "TIME_LIMIT;GUEST_KERNEL" "SOURCES;DEPENDS;LINKS;NEEDS" ${ARGN})
  set(target onecopy_test_${suite}_${name})
  add_executable(${target} ${ARG_SOURCES})
  onecopy_test_target(${target}
    LINKS $<$<NOT:$<BOOL:${ARG_OWN_MAIN}>>:onecopy_catch_main> ${ARG_LINKS}
    DEPENDS ${ARG_DEPENDS})
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin/tests/${suite}")
  onecopy_register_test(${target} ${target} ${suite} ${name}
    "${ARG_TIME_LIMIT}" "${ARG_NEEDS}" "${ARG_GUEST_KERNEL}" "${ARG_MOSTLY_WAITS}")
endfunction()

# What ctest and tests/run are to know of a program, which is of executable `of`.
function(onecopy_register_test target of suite name time_limit needs guest_kernel mostly_waits)
  set(program "$<TARGET_FILE_DIR:${of}>/${name}")
  if(suite STREQUAL rdma)  # in the guest that has RDMA devices; 126: it cannot run here
    add_test(NAME ${suite}.${name} COMMAND
      "${PROJECT_SOURCE_DIR}/tests/rdma/guest/run-in-guest"
      -k "$<IF:$<BOOL:${guest_kernel}>,${guest_kernel},backports>" -t 900 -- ${program})
    set_tests_properties(${suite}.${name} PROPERTIES SKIP_RETURN_CODE 126)
  else()
    add_test(NAME ${suite}.${name} COMMAND "${program}")
  endif()
  set_tests_properties(${suite}.${name} PROPERTIES
    LABELS ${suite} ENVIRONMENT "ONECOPY_BIN_DIR=${CMAKE_BINARY_DIR}/bin")
  set_target_properties(${target} PROPERTIES ONECOPY_OF ${of} ONECOPY_SUITE ${suite} ONECOPY_NAME ${name}
    ONECOPY_TIME_LIMIT "${time_limit}" ONECOPY_NEEDS "${needs}"
    ONECOPY_GUEST_KERNEL "${guest_kernel}" ONECOPY_MOSTLY_WAITS "${mostly_waits}")
  set_property(GLOBAL APPEND PROPERTY ONECOPY_TESTS ${target})
endfunction()

# onecopy_test_cases(name SOURCES file… [DEPENDS folder…])
#
# Cases that several programs have, each of which says by a file of its own what they run on: compiled once, and had by LINKS
# onecopy_test_cases_<name>.
function(onecopy_test_cases name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  set(target onecopy_test_cases_${name})
  add_library(${target} OBJECT ${ARG_SOURCES})
  onecopy_test_target(${target} LINKS onecopy_catch_main DEPENDS ${ARG_DEPENDS})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIE)  # as of a program
endfunction()

# onecopy_test_programs(suite bundle PROGRAMS name… [SOURCES file…] [DEPENDS folder…] [LINKS library…] [NEEDS programs…]
#   [TIME_LIMIT seconds])
#
# Programs of NAME_test.cc each, as above, that are one executable, <build>/bin/tests/<suite>/<bundle>, by many names: what
# all of them include is read a few times and not by each, and linked once. A file's names are in a namespace of its own,
# as it is compiled with others. SOURCES are what several of them use; NEEDS is built with each.
function(onecopy_test_programs suite bundle)
  cmake_parse_arguments(ARG "" "TIME_LIMIT" "PROGRAMS;SOURCES;DEPENDS;LINKS;NEEDS" ${ARGN})
  set(of onecopy_test_${suite}_${bundle})
  list(TRANSFORM ARG_PROGRAMS APPEND _test.cc OUTPUT_VARIABLE sources)
  add_executable(${of} ${sources} ${ARG_SOURCES})
  onecopy_test_target(${of} LINKS onecopy_catch_main ${ARG_LINKS} DEPENDS ${ARG_DEPENDS})
  set_target_properties(${of} PROPERTIES
    OUTPUT_NAME ${bundle} RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin/tests/${suite}")
  foreach(name IN LISTS ARG_PROGRAMS)
    add_custom_command(TARGET ${of} POST_BUILD VERBATIM
      BYPRODUCTS "${CMAKE_BINARY_DIR}/bin/tests/${suite}/${name}"
      COMMAND "${CMAKE_COMMAND}" -E create_symlink ${bundle} "$<TARGET_FILE_DIR:${of}>/${name}")
    add_custom_target(onecopy_test_${suite}_${name})
    add_dependencies(onecopy_test_${suite}_${name} ${of})
    onecopy_register_test(onecopy_test_${suite}_${name} ${of} ${suite} ${name}
      "${ARG_TIME_LIMIT}" "${ARG_NEEDS}" "" FALSE)
  endforeach()
endfunction()

# Writes <build>/bin/tests/manifest.json, from which tests/run knows the programs: called once all targets exist.
function(onecopy_write_test_manifest)
  get_property(targets GLOBAL PROPERTY ONECOPY_TESTS)
  set(entries "")
  foreach(target IN LISTS targets)
    foreach(property OF SUITE NAME TIME_LIMIT NEEDS GUEST_KERNEL MOSTLY_WAITS)
      get_target_property(${property} ${target} ONECOPY_${property})
    endforeach()
    set(needs "")
    if(NEEDS)
      add_dependencies(${target} ${NEEDS})
      list(APPEND needs "\"programs\"")
    endif()
    onecopy_links_grpc(${OF} links_grpc)
    if(links_grpc)
      list(APPEND needs "\"grpc\"")
    endif()
    if(GUEST_KERNEL)
      list(APPEND needs "\"kernel-${GUEST_KERNEL}\"")
    endif()
    if(MOSTLY_WAITS)
      list(APPEND needs "\"time\"")
    endif()
    list(JOIN needs ", " needs)
    if(NOT TIME_LIMIT)
      set(TIME_LIMIT 0)
    endif()
    list(APPEND entries "  {\"suite\": \"${SUITE}\", \"name\": \"${NAME}\", \"target\": \"${target}\", \"needs\": [${needs}], \"time_limit\": ${TIME_LIMIT}}")
  endforeach()
  list(JOIN entries ",\n" entries)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/bin/tests/manifest.json" CONTENT "[\n@entries@\n]\n" @ONLY)
endfunction()

# Whether the target links gRPC, itself or through others: under ThreadSanitizer such a program cannot be tested
# with the distribution's gRPC.
function(onecopy_links_grpc target result)
  set(pending ${target})
  set(seen "")
  while(pending)
    list(POP_FRONT pending current)
    if(current MATCHES "^\\$<LINK_ONLY:(.*)>$")
      set(current "${CMAKE_MATCH_1}")
    endif()
    if(current MATCHES "GRPC|grpc\\+\\+")
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
    if(NOT TARGET "${current}" OR current IN_LIST seen)
      continue()
    endif()
    list(APPEND seen "${current}")
    foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
      get_target_property(libraries "${current}" ${property})
      if(libraries)
        list(APPEND pending ${libraries})
      endif()
    endforeach()
  endwhile()
  set(${result} FALSE PARENT_SCOPE)
endfunction()
