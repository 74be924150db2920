// Little-endian numbers, as messages between daemons have them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace onecopy::pipeline {

template <typename T>
inline void Append(std::string& text, T number) {
  for (size_t i = 0; i < sizeof number; ++i) text += static_cast<char>(number >> (8 * i));
}

// Reads little-endian numbers from the front; `good` turns false when there are too few bytes.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  T Take() {
    T number = 0;
    if (bytes_.size() < sizeof number) {
      good_ = false;
      return number;
    }
    for (size_t i = 0; i < sizeof number; ++i) {
      number |= static_cast<T>(static_cast<T>(bytes_[i]) << (8 * i));
    }
    bytes_ = bytes_.subspan(sizeof number);
    return number;
  }
  std::string TakeBytes(size_t count) {
    if (bytes_.size() < count) {
      good_ = false;
      return {};
    }
    const std::string text(reinterpret_cast<const char*>(bytes_.data()), count);
    bytes_ = bytes_.subspan(count);
    return text;
  }
  std::string Rest() {
    const std::string text(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    bytes_ = {};
    return text;
  }
  bool Done() const { return good_ && bytes_.empty(); }
  bool good() const { return good_; }

 private:
  std::span<const std::byte> bytes_;
  bool good_ = true;
};

}  // namespace onecopy::pipeline
