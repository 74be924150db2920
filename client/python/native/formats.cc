#include "client/python/native/formats.h"

#include <string>
#include <string_view>

#include "client/formats/safetensors.h"
#include "client/formats/safetensors_index.h"
#include "client/python/native/errors.h"
#include "client/python/native/text.h"

namespace onecopy::python {

namespace nb = nanobind;
using namespace nb::literals;

namespace {

std::string_view TextOf(const nb::bytes& text) { return {text.c_str(), text.size()}; }

nb::str ToText(std::string_view text) { return nb::str(text.data(), text.size()); }

// Name, dtype, shape, where it begins in the file, bytes.
nb::tuple ToTuple(const formats::TensorInFile& tensor, uint64_t payload_offset) {
  nb::list shape;
  for (const uint64_t length : tensor.shape) shape.append(length);
  return nb::make_tuple(ToText(tensor.name), ToText(tensor.dtype), nb::tuple(shape),
                        payload_offset + tensor.offset_bytes, tensor.bytes);
}

// Tensors and metadata of an open file.
nb::tuple Head(const std::string& name, int fd) {
  const formats::SafetensorsHeader header = [&] {
    const nb::gil_scoped_release released;
    return Must(formats::ReadSafetensors(fd, name));
  }();
  nb::list tensors;
  for (const formats::TensorInFile& tensor : header.tensors) {
    tensors.append(ToTuple(tensor, header.payload_offset));
  }
  nb::dict metadata;
  for (const auto& [key, value] : header.metadata) metadata[ToText(key)] = ToText(value);
  return nb::make_tuple(tensors, metadata);
}

nb::dict Index(const std::string& name, const nb::bytes& text) {
  const auto files = [&] {
    const std::string_view view = TextOf(text);
    const nb::gil_scoped_release released;
    return Must(formats::ParseSafetensorsIndex(view, name));
  }();
  nb::dict found;
  for (const auto& [tensor, file] : files) found[ToText(tensor)] = ToText(file);
  return found;
}

// By their names how many bits an element has.
nb::dict Types() {
  nb::dict bits;
  for (const formats::ElementType& type : formats::ElementTypes())
    bits[ToText(type.name)] = type.bits;
  return bits;
}

}  // namespace

void BindFormats(nb::module_& module) {
  module.def("safetensors_head", &Head, "name"_a, "fd"_a,
             nb::sig("def safetensors_head(name: str, fd: int) -> "
                     "tuple[list[tuple[str, str, tuple[int, ...], int, int]], dict[str, str]]"));
  module.def("safetensors_index", &Index, "name"_a, "text"_a,
             nb::sig("def safetensors_index(name: str, text: bytes) -> dict[str, str]"));
  module.def("safetensors_types", &Types, nb::sig("def safetensors_types() -> dict[str, int]"));
  module.attr("MOST_SAFETENSORS_HEADER_BYTES") = formats::kMaxSafetensorsHeaderBytes;
}

}  // namespace onecopy::python
