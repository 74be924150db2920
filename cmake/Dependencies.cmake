# Other people's libraries. All come from the distribution's packages (deploy/bootstrap installs them).
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(tomlplusplus REQUIRED)
pkg_check_modules(GRPCPP REQUIRED IMPORTED_TARGET grpc++)
find_library(ONECOPY_GRPC_REFLECTION grpc++_reflection REQUIRED)  # of libgrpc++-dev, without a .pc
pkg_check_modules(SYSTEMD REQUIRED IMPORTED_TARGET libsystemd)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(CARES REQUIRED IMPORTED_TARGET libcares)
pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-core)
find_path(ONECOPY_BOOST_INCLUDE boost/beast/version.hpp REQUIRED)  # headers only
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc>=2.7)

find_program(ONECOPY_PROTOC_GRPC grpc_cpp_plugin REQUIRED)

# google/rpc/*.proto, which no -dev package has: deploy/bootstrap unpacks them.
find_path(ONECOPY_GOOGLEAPIS google/rpc/error_details.proto REQUIRED
          HINTS "${PROJECT_SOURCE_DIR}/build/deps/googleapis")

# cuda.h: types only. Nothing of CUDA is linked; the driver is opened at run time. build/deps/cuda is the toolkit
# that deploy/bootstrap chose or fetched.
find_path(ONECOPY_CUDA_INCLUDE cuda.h REQUIRED
          HINTS "${PROJECT_SOURCE_DIR}/build/deps/cuda/include" "$ENV{CUDA_HOME}/include"
                /usr/local/cuda/include)

# For the kernels of ours, and for programs of the tests on GPUs.
if(NOT ONECOPY_KERNELS MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "ONECOPY_KERNELS is ${ONECOPY_KERNELS}; it can be AUTO, ON or OFF")
endif()
if(ONECOPY_KERNELS STREQUAL "OFF")
  unset(ONECOPY_NVCC CACHE)
  set(ONECOPY_KERNELS_SUMMARY "none, as ONECOPY_KERNELS=OFF says: copy engines gather and scatter; no tests on GPUs")
else()
  set(required "")
  if(ONECOPY_KERNELS STREQUAL "ON")
    set(required REQUIRED)
  endif()
  find_program(ONECOPY_NVCC nvcc ${required}
    HINTS "${PROJECT_SOURCE_DIR}/build/deps/cuda/bin" "$ENV{CUDA_HOME}/bin" /usr/local/cuda/bin)
  if(ONECOPY_NVCC)
    set(ONECOPY_KERNELS_SUMMARY "by ${ONECOPY_NVCC}")
  else()
    set(ONECOPY_KERNELS_SUMMARY "none, as there is no nvcc: copy engines gather and scatter; no tests on GPUs")
  endif()
endif()
