// Plain values in and out of byte strings, lengths checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

namespace onecopy::ucx {

template <typename Value>
void Put(std::string& out, Value value) {
  static_assert(std::is_integral_v<Value>);
  for (size_t i = 0; i < sizeof value; ++i) {
    out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  }
}

inline void PutText(std::string& out, std::string_view text) {
  Put(out, static_cast<uint32_t>(text.size()));
  out += text;
}

// Takes values off the front of a text; once one does not fit, all that follow are empty.
class ByteReader {
 public:
  explicit ByteReader(std::string_view text) : text_(text) {}

  template <typename Value>
  Value Take() {
    static_assert(std::is_integral_v<Value>);
    if (text_.size() < sizeof(Value)) {
      ok_ = false;
      text_ = {};
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof(Value); ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(text_[i])) << (8 * i);
    }
    text_.remove_prefix(sizeof(Value));
    return static_cast<Value>(value);
  }

  std::string_view TakeText(size_t most) {
    const auto size = Take<uint32_t>();
    if (size > most || size > text_.size()) {
      ok_ = false;
      text_ = {};
      return {};
    }
    const std::string_view taken = text_.substr(0, size);
    text_.remove_prefix(size);
    return taken;
  }

  std::string_view rest() const { return text_; }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && text_.empty(); }

 private:
  std::string_view text_;
  bool ok_ = true;
};

// FNV-1a: against accidents, not against forgers.
inline uint64_t Checksum(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace onecopy::ucx
