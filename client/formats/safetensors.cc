#include "client/formats/safetensors.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "client/cli/output/escape.h"
#include "client/formats/head_reader.h"
#include "client/formats/json_text.h"
#include "onecopy/reasons.h"
#include "transport/os/base/error.h"

namespace onecopy::formats {
namespace {

using cli::Printable;
using cli::Quote;

constexpr uint64_t kLengthBytes = 8;

Status BadFile(const std::string& name, const std::string& why) {
  return {Code::kInvalidArgument, reasons::kBadFormat,
          Printable(name) + " is not a valid safetensors file: " + why,
          "download or write the file again"};
}

// Absent where it is not a whole number of bytes, or a product on the way does not fit into 64
// bits, a later 0 notwithstanding: as the format's library multiplies.
std::optional<uint64_t> BytesOf(const TensorInFile& tensor) {
  uint64_t product = 1;
  for (const uint64_t length : tensor.shape) {
    if (__builtin_mul_overflow(product, length, &product)) return std::nullopt;
  }
  if (__builtin_mul_overflow(product, BitsOf(tensor.dtype), &product)) return std::nullopt;
  if (product % 8 != 0) return std::nullopt;
  return product / 8;
}

// Of several of one name the last stays.
template <typename T, typename Name>
void KeepLast(std::vector<T>& all, Name name) {
  std::ranges::reverse(all);
  std::ranges::stable_sort(all, {}, name);
  const auto same = [&](const T& one, const T& other) { return one.*name == other.*name; };
  all.erase(std::unique(all.begin(), all.end(), same), all.end());
}

Status CheckOrder(const std::vector<TensorInFile>& tensors, uint64_t payload_bytes,
                  const std::string& name) {
  uint64_t end = 0;
  for (const TensorInFile& tensor : tensors) {
    if (tensor.offset_bytes != end) {
      return BadFile(name, "tensor " + Quote(tensor.name) + " begins at byte " +
                               std::to_string(tensor.offset_bytes) + " of the payload and " +
                               (tensor.offset_bytes < end ? "shares bytes with another"
                                                          : "leaves a gap before it"));
    }
    if (BytesOf(tensor) != tensor.bytes) {
      return BadFile(name, "the data_offsets of tensor " + Quote(tensor.name) +
                               " do not fit its dtype, " + std::string(tensor.dtype) +
                               ", and its shape");
    }
    if (tensor.bytes > payload_bytes - end) {
      return BadFile(name, "tensor " + Quote(tensor.name) + " ends after the end of the file");
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
                             " bytes, and the length field alone takes 8");
  }
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(first[i]);
  }
  if (length > kMaxSafetensorsHeaderBytes || length > file_bytes - kLengthBytes) {
    return BadFile(name, "its length field announces a head of " + std::to_string(length) +
                             " bytes, and the whole file has " + std::to_string(file_bytes));
  }
  return length;
}

Result<SafetensorsHeader> ParseSafetensors(std::string_view text, uint64_t file_bytes,
                                           const std::string& name) {
  if (file_bytes < kLengthBytes || text.size() > file_bytes - kLengthBytes) {
    return BadFile(name, "its head is longer than the file");
  }
  HeadReader reader;
  if (!ReadJson(text, &reader)) return BadFile(name, reader.why());
  SafetensorsHeader header;
  header.payload_offset = kLengthBytes + text.size();
  header.payload_bytes = file_bytes - header.payload_offset;
  header.metadata = reader.TakeMetadata();
  KeepLast(header.metadata, &std::pair<std::string, std::string>::first);
  header.tensors = reader.TakeTensors();
  KeepLast(header.tensors, &TensorInFile::name);
  std::ranges::stable_sort(header.tensors, {}, [](const TensorInFile& tensor) {
    return std::pair(tensor.offset_bytes, tensor.bytes);
  });
  ONECOPY_RETURN_IF_ERROR(CheckOrder(header.tensors, header.payload_bytes, name));
  return header;
}

Result<SafetensorsHeader> ReadSafetensors(int fd, const std::string& name) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return os::ErrnoStatus(errno, "looking at " + Printable(name));
  if (!S_ISREG(facts.st_mode)) {
    return Status(
        Code::kInvalidArgument, reasons::kBadArgument,
        Printable(name) + " is " + (S_ISDIR(facts.st_mode) ? "a folder" : "not a regular file"),
        "name a file");
  }
  const auto file_bytes = static_cast<uint64_t>(facts.st_size);
  ONECOPY_ASSIGN_OR_RETURN(const std::string first, ReadText(fd, 0, kLengthBytes, name));
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t length, SafetensorsHeaderBytes(first, file_bytes, name));
  ONECOPY_ASSIGN_OR_RETURN(const std::string text, ReadText(fd, kLengthBytes, length, name));
  if (text.size() < length) return BadFile(name, "it became shorter while it was read");
  return ParseSafetensors(text, file_bytes, name);
}

}  // namespace onecopy::formats
