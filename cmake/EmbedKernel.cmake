# onecopy_embed_kernel(OUT SOURCE NAME [DEPENDS FILE…]): compiles SOURCE, CUDA C++, by nvcc into one image for every
# architecture and embeds it as the constant NAME (see EmbedBinary.cmake); OUT is set to the C++ file that has it. Nothing
# of CUDA's runtime is linked. Without nvcc (ONECOPY_KERNELS) the constant is null. An architecture that the compiler no longer has (7.0 went with CUDA 13) is left out; newer
# GPUs than the last one take its PTX.
function(onecopy_embed_kernel out source name)
  cmake_parse_arguments(PARSE_ARGV 3 KERNEL "" "" DEPENDS)
  get_filename_component(stem "${source}" NAME_WE)
  set(embedded "${CMAKE_CURRENT_BINARY_DIR}/${stem}_image.cc")
  set(embed "${PROJECT_SOURCE_DIR}/cmake/EmbedBinary.cmake")
  set(${out} "${embedded}" PARENT_SCOPE)
  if(NOT ONECOPY_NVCC)
    add_custom_command(OUTPUT "${embedded}"
      COMMAND "${CMAKE_COMMAND}" "-DOUT=${embedded}" "-DNAME=${name}" -P "${embed}" DEPENDS "${embed}" VERBATIM)
    return()
  endif()
  execute_process(COMMAND "${ONECOPY_NVCC}" --list-gpu-code OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "sm_[0-9]+" known "${known}")
  set(targets "")
  foreach(architecture 70 75 80 86 89 90)
    if("sm_${architecture}" IN_LIST known)
      list(APPEND targets -gencode arch=compute_${architecture},code=sm_${architecture})
    endif()
  endforeach()
  list(APPEND targets -gencode arch=compute_90,code=compute_90)
  set(image "${CMAKE_CURRENT_BINARY_DIR}/${stem}.fatbin")
  add_custom_command(
    OUTPUT "${embedded}"
    COMMAND "${ONECOPY_NVCC}" -fatbin -std=c++17 -O3 -ccbin "${CMAKE_CXX_COMPILER}" -Werror=all-warnings
            "-I${PROJECT_SOURCE_DIR}" ${targets} -o "${image}" "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
    COMMAND "${CMAKE_COMMAND}" "-DIN=${image}" "-DOUT=${embedded}" "-DNAME=${name}" -P "${embed}"
    DEPENDS "${source}" ${KERNEL_DEPENDS} "${embed}"
    COMMENT "Compiling the kernel ${source}" VERBATIM)
endfunction()
