// Ownership of a file descriptor.
#pragma once

#include <utility>

namespace onecopy::os {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  ~UniqueFd() { Reset(); }
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      Reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset();

  // A second descriptor of the same open file, close-on-exec; empty on failure (errno says why).
  UniqueFd Duplicate() const;
  static UniqueFd DuplicateOf(int fd);

 private:
  int fd_ = -1;
};

}  // namespace onecopy::os
