# Language level, warnings, sanitizers, ccache: what every target of ours is compiled with.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/lib")

find_program(ONECOPY_CCACHE ccache)
if(ONECOPY_CCACHE)
  # Paths below the checkout count as relative ones, so that another checkout finds what this one compiled.
  set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros "${ONECOPY_CCACHE}")  # without these it keeps nothing of precompiled headers
  set(CMAKE_CXX_COMPILER_LAUNCHER ${launcher})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${launcher})
endif()

# Strict for our own code; generated code and other people's headers are not ours to warn about.
add_library(onecopy_strict INTERFACE)
target_compile_options(onecopy_strict INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic>")
if(ONECOPY_WERROR)
  target_compile_options(onecopy_strict INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Werror>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # What transport/core/base/mutex.h says of members and functions.
  target_compile_options(onecopy_strict INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 sees an overlap in "literal" + std::string that is not there (its bug 105651).
  target_compile_options(onecopy_strict INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>")
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In a unit of many sources gcc takes each for a header, in which a class must not use an anonymous namespace.
  target_compile_options(onecopy_strict INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>")
endif()

if(ONECOPY_FUZZ)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=fuzzer-no-link>")
endif()
if(ONECOPY_SANITIZE STREQUAL "address")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=address,undefined;-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=address,undefined)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # C libraries that are newer than our headers answer with numbers that their enumerations do not have yet.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=enum>")
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # gcc sees uninitialised uses in instrumented code that are not there.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>")
  endif()
elseif(ONECOPY_SANITIZE STREQUAL "thread")
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=thread;-fno-omit-frame-pointer>")
  add_link_options(-fsanitize=thread)
endif()
