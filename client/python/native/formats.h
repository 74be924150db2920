// Heads of files of arrays, which the C++ code reads.
#pragma once

#include <nanobind/nanobind.h>

namespace onecopy::python {

// safetensors_header_bytes(name, first, file_bytes), safetensors_head(name, text, file_bytes) and
// safetensors_index(name, text): see client/formats. They raise as the client library does.
void BindFormats(nanobind::module_& module);

}  // namespace onecopy::python
