#include "proto/codec/utf8.h"

#include <cstdint>

namespace onecopy {
namespace {

constexpr std::string_view kCut = "...";

// Length of the valid character at the start of `text`; 0 for none.
size_t CharacterBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  size_t bytes = 0;
  uint32_t least = 0;  // the smallest character that needs so many bytes
  uint32_t character = 0;
  if (first >> 5 == 0x06) {
    bytes = 2, least = 0x80, character = first & 0x1f;
  } else if (first >> 4 == 0x0e) {
    bytes = 3, least = 0x800, character = first & 0x0f;
  } else if (first >> 3 == 0x1e) {
    bytes = 4, least = 0x10000, character = first & 0x07;
  } else {
    return 0;
  }
  if (text.size() < bytes) return 0;
  for (size_t i = 1; i < bytes; ++i) {
    if (byte(i) >> 6 != 0x02) return 0;
    character = character << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = character >= 0xd800 && character <= 0xdfff;
  return character < least || character > 0x10ffff || surrogate ? 0 : bytes;
}

}  // namespace

std::string ToUtf8(std::string_view text) {
  std::string valid(text);
  for (size_t at = 0; at < valid.size();) {
    if (static_cast<uint8_t>(valid[at]) < 0x80) {
      ++at;
      continue;
    }
    const size_t bytes = CharacterBytes(std::string_view(valid).substr(at));
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
