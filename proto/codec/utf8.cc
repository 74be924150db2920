#include "proto/codec/utf8.h"

#include <cstdint>

#include "onecopy/utf8.h"

namespace onecopy {
namespace {

constexpr std::string_view kCut = "...";

}  // namespace

std::string ToUtf8(std::string_view text) {
  std::string valid(text);
  for (size_t at = 0; at < valid.size();) {
    if (static_cast<uint8_t>(valid[at]) < 0x80) {
      ++at;
      continue;
    }
    const size_t bytes = DecodeUtf8(std::string_view(valid).substr(at)).bytes;
    if (bytes == 0) valid[at] = '?';
    at += bytes == 0 ? 1 : bytes;
  }
  return valid;
}

std::string CutUtf8(std::string_view utf8, size_t most_bytes) {
  if (utf8.size() <= most_bytes) return std::string(utf8);
  const bool room = most_bytes >= kCut.size();
  size_t keep = room ? most_bytes - kCut.size() : most_bytes;
  while (keep > 0 && static_cast<uint8_t>(utf8[keep]) >> 6 == 0x02) --keep;
  std::string cut(utf8.substr(0, keep));
  if (room) cut += kCut;
  return cut;
}

}  // namespace onecopy
