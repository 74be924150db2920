#include "client/formats/safetensors_index.h"

#include <nlohmann/json.hpp>

#include "client/cli/output/escape.h"
#include "client/formats/json_text.h"
#include "client/formats/safetensors.h"
#include "onecopy/reasons.h"

namespace onecopy::formats {
namespace {

using cli::Printable;
using cli::Quote;

constexpr std::string_view kMap = "weight_map";

// A name, or a path of names, that does not lead out of the index's folder.
bool IsBesideIndex(std::string_view file) {
  if (file.find('\0') != std::string_view::npos) return false;
  for (size_t end = 0; end != std::string_view::npos;) {
    end = file.find('/');
    const std::string_view name = file.substr(0, end);
    if (name.empty() || name == "." || name == "..") return false;
    if (end != std::string_view::npos) file.remove_prefix(end + 1);
  }
  return true;
}

// Keeps the map, and nothing of the rest.
class IndexReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<std::pair<std::string, std::string>> Take() { return std::move(files_); }
  const std::string& why() const { return why_; }

  bool null() override { return Scalar(); }
  bool boolean(bool) override { return Scalar(); }
  bool number_integer(number_integer_t) override { return Scalar(); }
  bool number_unsigned(number_unsigned_t) override { return Scalar(); }
  bool number_float(number_float_t, const string_t&) override { return Scalar(); }
  bool binary(binary_t&) override { return Scalar(); }

  bool string(string_t& value) override {
    if (!in_map_ || depth_ != 2) return Scalar();
    if (!IsBesideIndex(value)) {
      return Fail("tensor " + Quote(tensor_) + " is in " + Quote(value) +
                  ", which is not a file beside the index or in a folder there");
    }
    if (files_.size() == kMaxTensors) return Fail("it names more tensors than allowed");
    files_.emplace_back(std::move(tensor_), std::move(value));
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ >= 2 && in_map_) return NotText();
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (depth_ == 0) return Fail("it is not an object");
    if (in_map_) return depth_ == 1 ? NotMap() : NotText();
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      in_map_ = value == kMap;
      if (in_map_) files_.clear();
    } else if (in_map_) {
      tensor_ = std::move(value);
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return NotJson(position);
  }
  bool NotJson(std::size_t position) {
    return Fail("it is not JSON at byte " + std::to_string(position));
  }

 private:
  bool Scalar() {
    if (depth_ == 0) return Fail("it is not an object");
    if (!in_map_) return true;
    return depth_ == 1 ? NotMap() : NotText();
  }
  bool NotMap() { return Fail(std::string(kMap) + " is not an object"); }
  bool NotText() { return Fail("the file of tensor " + Quote(tensor_) + " is not a string"); }
  bool Fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }

  uint64_t depth_ = 0;
  bool in_map_ = false;
  std::string tensor_;
  std::vector<std::pair<std::string, std::string>> files_;
  std::string why_;
};

Status BadIndex(const std::string& name, const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadFormat,
          Printable(name) + " is not a valid index of safetensors files: " + why,
          "download or write the index again"};
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> ParseSafetensorsIndex(
    std::string_view text, const std::string& name) {
  if (text.size() > kMaxSafetensorsHeaderBytes) {
    return BadIndex(name, "it has " + std::to_string(text.size()) + " bytes, more than the " +
                              std::to_string(kMaxSafetensorsHeaderBytes) + " of any");
  }
  IndexReader reader;
  if (!ReadJson(text, &reader)) return BadIndex(name, reader.why());
  auto files = reader.Take();
  if (files.empty()) return BadIndex(name, "it has no " + std::string(kMap) + " of tensors' files");
  return files;
}

}  // namespace onecopy::formats
