// Where the bytes of somebody's array are.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "client/python/native/dlpack.h"

namespace onecopy::python {

// Move-only. Keeps the array's memory alive; needs the GIL where it ends.
struct Tensor {
  Tensor() = default;
  Tensor(Tensor&& other) noexcept { *this = std::move(other); }
  Tensor& operator=(Tensor&& other) noexcept;
  ~Tensor();

  uint64_t address = 0;
  dlpack::Device device = {dlpack::kCpu, 0};
  uint64_t bits = 8;  // of an element, all lanes
  // Of its elements: DLPack's, or, by the buffer protocol, as the struct module writes it.
  dlpack::DataType type = {dlpack::kUInt, 8, 1};
  std::optional<std::string> format;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in bits, one for each dimension
  bool read_only = false;
  // Address, bytes of an element, shape, strides in bytes, device, whether it is read-only, the
  // protocol, and the type: all at once. Of elements that are bytes in full.
  nanobind::tuple Fields() const;
  // The format, or DLPack's code, bits and lanes.
  nanobind::object Type() const;

  std::string protocol;           // which handed it over
  std::function<void()> release;  // of what keeps the memory
};

// By the C exchange API of the object's type, a versioned or an old DLPack capsule (also where the
// object is one), or the buffer protocol, whichever comes first. Throws BufferError and TypeError
// with what to do.
Tensor ImportTensor(const nanobind::object& array);

// Address, bytes, whether it is read-only, whether it is on a GPU, the type of its elements, and
// its shape, of an array without gaps in host memory or on a GPU of CUDA's, where its type tells
// that quickly: by the buffer protocol or the C exchange API. Nothing for any other object.
std::optional<std::tuple<uint64_t, uint64_t, bool, bool, nanobind::object, nanobind::object>>
FlatMemoryOf(const nanobind::object& array);

// A DLPack capsule of memory that `owner` keeps; `strides` in elements. Versioned from 1.0 on.
nanobind::object ExportTensor(const nanobind::object& owner, uint64_t address,
                              const dlpack::Device& device, const dlpack::DataType& type,
                              const std::vector<int64_t>& shape,
                              const std::vector<int64_t>& strides, bool read_only, bool versioned);

}  // namespace onecopy::python
