// Heads of safetensors files, and indexes of several, as the command line and the Python package
// read them.
#include <algorithm>

#include "client/formats/safetensors.h"
#include "client/formats/safetensors_index.h"
#include "tests/fuzz/fuzz.h"

namespace {

using namespace onecopy;

// The first bytes of a file, and how many it is said to have.
std::string FileOf(const std::string& text, uint32_t payload_bytes) {
  std::string file;
  for (size_t i = 0; i < 4; ++i) file += static_cast<char>(payload_bytes >> (8 * i) & 0xff);
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(uint64_t{text.size()} >> (8 * i) & 0xff);
  return file + text;
}

void CheckTensors(const formats::SafetensorsHeader& header, uint64_t file_bytes) {
  EXPECT(header.payload_offset + header.payload_bytes == file_bytes);
  uint64_t end = 0;
  for (const formats::TensorInFile& tensor : header.tensors) {
    EXPECT(tensor.offset_bytes == end);
    EXPECT(!tensor.dtype.empty());
    EXPECT(tensor.shape.size() <= formats::kMaxDimensions);
    end += tensor.bytes;
  }
  EXPECT(end == header.payload_bytes);
}

void ReadIndex(std::string_view text) {
  const auto files = formats::ParseSafetensorsIndex(text, "an index");
  if (!files.ok()) {
    EXPECT(files.status().code() == Code::kInvalidArgument);
    EXPECT(!files.status().message().empty());
    return;
  }
  EXPECT(!files->empty());
  for (const auto& [tensor, file] : *files) {
    EXPECT(!file.empty() && file.front() != '/' && file != "..");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  const uint64_t payload_bytes = input.Get<uint32_t>();
  const std::string_view file = input.Rest();
  const uint64_t file_bytes = file.size() + payload_bytes;
  ReadIndex(file);
  const auto length = formats::SafetensorsHeaderBytes(file.substr(0, 8), file_bytes, "a file");
  if (!length.ok()) {
    EXPECT(length.status().code() == Code::kInvalidArgument);
    return 0;
  }
  EXPECT(*length <= formats::kMaxSafetensorsHeaderBytes);
  EXPECT(8 + *length <= file_bytes);
  const auto header = formats::ParseSafetensors(file.substr(8, *length), file_bytes, "a file");
  if (header.ok()) {
    CheckTensors(*header, file_bytes);
  } else {
    EXPECT(header.status().code() == Code::kInvalidArgument);
    EXPECT(!header.status().message().empty());
  }
  return 0;
}

std::vector<std::string> onecopy::fuzz::Seeds() {
  return {
      FileOf(
          R"({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3], )"
          R"("data_offsets": [0, 24]}, "b": {"dtype": "BF16", "shape": [], "data_offsets": [24, 26]}}  )",
          26),
      FileOf(
          R"({"a": {"dtype": "F4", "shape": [4], "data_offsets": [0, 2]}, )"
          R"("none": {"dtype": "U8", "shape": [0, 9223372036854775807], "data_offsets": [2, 2]}})",
          2),
      FileOf("{}", 0),
      FileOf("[]", 0),
      FileOf(R"({"a": 1})", 1),
      FileOf(
          R"( {"a": ["U8", [1], [0, 1]], "a": {"dtype": {"U8": null}, "more": [{"x": -0.5e1}, []], )"
          R"("shape": [1], "data_offsets": [0, 1]}, "__metadata__": null})",
          1),
      std::string(4, '\0') +
          R"({"metadata": {"total_size": 1}, "weight_map": {"a": "1.safetensors"}})"};
}
