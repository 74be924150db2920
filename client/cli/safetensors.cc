#include "client/cli/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "client/cli/output/escape.h"
#include "onecopy/reasons.h"
#include "transport/os/error.h"

namespace onecopy::cli {
namespace {

using SaxJson = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
constexpr size_t kMaxDimensions = 4096;

Status BadFile(const std::string& name, const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadFormat,
          Printable(name) + " is no whole safetensors file: " + why, "get or write the file anew"};
}

// Bits of an element; 0 for a type that is none.
uint64_t BitsOf(std::string_view dtype) {
  static constexpr std::pair<std::string_view, uint64_t> kTypes[] = {
      {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
      {"I64", 64},        {"U64", 64}};
  for (const auto& [name, bits] : kTypes) {
    if (name == dtype) return bits;
  }
  return 0;
}

// Absent where it is no whole number of bytes, or too many.
std::optional<uint64_t> BytesOfShape(uint64_t bits, const std::vector<uint64_t>& shape) {
  if (std::ranges::find(shape, uint64_t{0}) != shape.end()) return 0;
  uint64_t product = bits;
  for (const uint64_t length : shape) {
    if (length > kMost / product) return std::nullopt;
    product *= length;
  }
  if (product % 8 != 0) return std::nullopt;
  return product / 8;
}

// Takes the text word by word, and nothing that the format does not have: so nothing of it is kept
// but tensors, however deep or long it is. A method that returns false ends the reading.
class HeadReader final : public nlohmann::json_sax<SaxJson> {
 public:
  std::vector<TensorInFile> Tensors() && { return std::move(tensors_); }
  const std::string& why() const { return why_; }

  bool null() override { return Refuse("null"); }
  bool boolean(bool) override { return Refuse("true or false"); }
  bool number_integer(number_integer_t) override { return Refuse("a number below 0"); }
  bool number_float(number_float_t, const string_t&) override { return Refuse("no whole number"); }
  bool binary(binary_t&) override { return Refuse("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (list_ == nullptr || value > kMost) return Refuse("a number");
    if (list_->size() == kMaxDimensions) return Refuse("more numbers than any shape has");
    list_->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) return true;
    if (depth_ != 2 || list_ != nullptr || key_ != "dtype") return Refuse("a text");
    tensor_.dtype = value;
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ >= 2 || list_ != nullptr) return Refuse("an object");
    ++depth_;
    keys_.clear();
    if (depth_ == 2 && !in_metadata_) {
      tensor_ = {};
      tensor_.name = name_;
      offsets_.clear();
    }
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      name_ = value;
      in_metadata_ = value == "__metadata__";
      return names_.insert(value).second || Fail("'" + Printable(value) + "' is in it twice");
    }
    key_ = value;
    if (!keys_.insert(value).second) {
      return Fail("'" + Printable(value) + "' is twice in '" + Printable(name_) + "'");
    }
    if (in_metadata_ || value == "dtype" || value == "shape" || value == "data_offsets")
      return true;
    return Fail("tensor '" + Printable(name_) + "' has the field '" + Printable(value) +
                "', which is none of the format's");
  }

  bool end_object() override {
    --depth_;
    if (depth_ == 0 || std::exchange(in_metadata_, false)) return true;
    if (keys_.size() != 3 || offsets_.size() != 2) {
      return Fail("tensor '" + Printable(name_) + "' lacks a dtype, a shape or two data_offsets");
    }
    return AddTensor();
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_metadata_ || list_ != nullptr || key_ == "dtype") return Refuse("a list");
    list_ = key_ == "shape" ? &tensor_.shape : &offsets_;
    return true;
  }

  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& what) override {
    // The library's message repeats the text, which may be anybody's.
    static_cast<void>(what);
    return Fail("its head is no JSON at byte " + std::to_string(position));
  }

 private:
  bool Fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }

  bool Refuse(const std::string& what) {
    if (depth_ == 0) return Fail("its head is " + what + ", and no object");
    return Fail("'" + Printable(name_) + "' has " + what + " where the format has none");
  }

  bool AddTensor() {
    const std::string what = "tensor '" + Printable(name_) + "' ";
    const uint64_t bits = BitsOf(tensor_.dtype);
    if (bits == 0) return Fail(what + "is of an unknown dtype, '" + Printable(tensor_.dtype) + "'");
    const std::optional<uint64_t> bytes = BytesOfShape(bits, tensor_.shape);
    if (!bytes || offsets_[0] > offsets_[1] || offsets_[1] - offsets_[0] != *bytes) {
      return Fail(what + "does not have the bytes of its shape and dtype: its data_offsets are " +
                  std::to_string(offsets_[0]) + " and " + std::to_string(offsets_[1]));
    }
    tensor_.offset_bytes = offsets_[0];
    tensor_.bytes = *bytes;
    tensors_.push_back(std::move(tensor_));
    return true;
  }

  int depth_ = 0;  // of objects
  bool in_metadata_ = false;
  std::string name_;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> keys_;  // of the innermost object
  TensorInFile tensor_;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t>* list_ = nullptr;  // that numbers go to
  std::vector<TensorInFile> tensors_;
  std::string why_;
};

Status CheckOrder(const std::vector<TensorInFile>& tensors, uint64_t payload_bytes,
                  const std::string& name) {
  uint64_t end = 0;
  for (const TensorInFile& tensor : tensors) {
    if (tensor.offset_bytes != end) {
      return BadFile(name, "tensor '" + Printable(tensor.name) + "' begins at byte " +
                               std::to_string(tensor.offset_bytes) + " of the payload and " +
                               (tensor.offset_bytes < end ? "shares bytes with another"
                                                          : "leaves a hole before it"));
    }
    if (tensor.bytes > payload_bytes - end) {
      return BadFile(name, "tensor '" + Printable(tensor.name) + "' ends behind the file's end");
    }
    end += tensor.bytes;
  }
  if (end == payload_bytes) return OkStatus();
  return BadFile(name, "its tensors have " + std::to_string(end) + " bytes, and " +
                           std::to_string(payload_bytes) + " are there");
}

Result<std::string> ReadText(int fd, uint64_t offset, uint64_t bytes, const std::string& name) {
  std::string text(bytes, '\0');
  uint64_t got = 0;
  while (got < bytes) {
    const ssize_t count =
        ::pread(fd, text.data() + got, bytes - got, static_cast<off_t>(offset + got));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return os::ErrnoStatus(errno, "reading " + Printable(name));
    if (count == 0) break;
    got += static_cast<uint64_t>(count);
  }
  text.resize(got);
  return text;
}

}  // namespace

Result<uint64_t> SafetensorsHeaderBytes(std::string_view first, uint64_t file_bytes,
                                        const std::string& name) {
  if (first.size() < kLengthBytes || file_bytes < kLengthBytes) {
    return BadFile(name, "it has " + std::to_string(std::min<uint64_t>(first.size(), file_bytes)) +
                             " bytes, and the length of its head alone takes 8");
  }
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(first[i]);
  }
  if (length > kMaxSafetensorsHeaderBytes || length > file_bytes - kLengthBytes) {
    return BadFile(name, "its head is said to have " + std::to_string(length) +
                             " bytes, and the whole file has " + std::to_string(file_bytes));
  }
  return length;
}

Result<SafetensorsHeader> ParseSafetensors(std::string_view text, uint64_t file_bytes,
                                           const std::string& name) {
  if (text.empty() || text.front() != '{') return BadFile(name, "its head does not begin with '{'");
  if (file_bytes < kLengthBytes || text.size() > file_bytes - kLengthBytes) {
    return BadFile(name, "its head is longer than the file");
  }
  HeadReader reader;
  if (!SaxJson::sax_parse(text, &reader)) return BadFile(name, reader.why());
  SafetensorsHeader header;
  header.payload_offset = kLengthBytes + text.size();
  header.payload_bytes = file_bytes - header.payload_offset;
  header.tensors = std::move(reader).Tensors();
  std::ranges::sort(header.tensors, {}, [](const TensorInFile& tensor) {
    return std::pair(tensor.offset_bytes, tensor.bytes);
  });
  ONECOPY_RETURN_IF_ERROR(CheckOrder(header.tensors, header.payload_bytes, name));
  return header;
}

Result<SafetensorsHeader> ReadSafetensors(int fd, const std::string& name) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return os::ErrnoStatus(errno, "looking at " + Printable(name));
  if (!S_ISREG(facts.st_mode)) return BadFile(name, "it is no regular file");
  const auto file_bytes = static_cast<uint64_t>(facts.st_size);
  ONECOPY_ASSIGN_OR_RETURN(const std::string first, ReadText(fd, 0, kLengthBytes, name));
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t length, SafetensorsHeaderBytes(first, file_bytes, name));
  ONECOPY_ASSIGN_OR_RETURN(const std::string text, ReadText(fd, kLengthBytes, length, name));
  if (text.size() < length) return BadFile(name, "it became shorter while it was read");
  return ParseSafetensors(text, file_bytes, name);
}

}  // namespace onecopy::cli
