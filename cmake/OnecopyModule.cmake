# onecopy_module(SOURCES file… [DEPENDS folder…] [LINKS library…])
#
# The static library of the current folder, named after it: transport/link/tcp is onecopy_transport_link_tcp.
# DEPENDS names other folders of ours, checked against Layers.cmake; LINKS other people's libraries.
function(onecopy_module)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LINKS" ${ARGN})
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}"
             OUTPUT_VARIABLE folder)
  onecopy_check_layer("${folder}" "${ARG_DEPENDS}")
  onecopy_target_name("${folder}" target)
  add_library(${target} STATIC ${ARG_SOURCES})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE onecopy_strict PUBLIC ${ARG_LINKS})
  foreach(dependency IN LISTS ARG_DEPENDS)
    onecopy_target_name("${dependency}" dependency_target)
    target_link_libraries(${target} PUBLIC ${dependency_target})
  endforeach()
endfunction()

# onecopy_rooms(room…)
#
# The current folder is made of rooms: folders with a target each, from the ground up. The folder's own name stands for all
# of them, for those who use it; the rooms name each other one by one. ONECOPY_ROOMS_<folder> has their targets.
function(onecopy_rooms)
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}"
             OUTPUT_VARIABLE folder)
  onecopy_target_name("${folder}" target)
  add_library(${target} INTERFACE)
  foreach(room IN LISTS ARGN)
    add_subdirectory(${room})
    target_link_libraries(${target} INTERFACE ${target}_${room})
    list(APPEND targets ${target}_${room})
  endforeach()
  set_property(GLOBAL PROPERTY ONECOPY_ROOMS_${target} ${targets})
endfunction()

function(onecopy_target_name folder result)
  string(REPLACE "/" "_" name "${folder}")
  set(${result} "onecopy_${name}" PARENT_SCOPE)
endfunction()

# A folder without an entry of its own is judged by its parent's (every backend of a kind alike).
function(onecopy_check_layer folder dependencies)
  set(layer "${folder}")
  while(TRUE)
    string(REPLACE "/" "_" key "${layer}")
    if(DEFINED ONECOPY_LAYER_${key})
      break()
    endif()
    cmake_path(GET layer PARENT_PATH layer)
    if(layer STREQUAL "")
      message(FATAL_ERROR "${folder} is in no layer: add it to cmake/Layers.cmake")
    endif()
  endwhile()
  foreach(dependency IN LISTS dependencies)
    if(NOT dependency IN_LIST ONECOPY_LAYER_${key} AND NOT dependency IN_LIST ONECOPY_EVERYWHERE)
      message(FATAL_ERROR "${folder} may not depend on ${dependency}: see cmake/Layers.cmake")
    endif()
  endforeach()
endfunction()
