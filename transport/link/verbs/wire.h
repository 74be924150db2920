// Fixed-size fields in strings: what ends of a connection tell each other. Integers are
// little-endian; a reader that has run out of bytes, or was given too many, says so once at the
// end.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace onecopy::verbs {

// Numbers of queue pairs and of packets have 24 bits.
inline constexpr uint32_t kMask24 = 0xffffff;

class Writer {
 public:
  template <typename Integer>
  void Put(Integer value) {
    for (size_t i = 0; i < sizeof value; ++i) {
      text_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
    }
  }
  void PutText(std::string_view text) {  // at most 255 bytes
    Put(static_cast<uint8_t>(text.size()));
    text_.append(text);
  }
  void PutBytes(const void* bytes, size_t count) {
    text_.append(static_cast<const char*>(bytes), count);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  template <typename Integer>
  Integer Get() {
    const std::string_view bytes = Cut(sizeof(Integer));
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) {
      value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return static_cast<Integer>(value);
  }
  std::string GetText() { return std::string(Cut(Get<uint8_t>())); }
  void GetBytes(void* into, size_t count) {
    const std::string_view bytes = Cut(count);
    if (!bytes.empty()) std::memcpy(into, bytes.data(), bytes.size());
  }
  std::string_view Rest() { return Cut(rest_.size()); }

  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view Cut(size_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const std::string_view cut = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return cut;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace onecopy::verbs
