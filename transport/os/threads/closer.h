// Closes descriptors that clients have passed, on threads that may block: the last close of a
// socket may wait for its far end, and any close of a file for a file system that never answers.
#pragma once

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "transport/core/base/uid.h"
#include "transport/core/base/unique_function.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

// Any thread. Whatever one payer's descriptors wait for holds up that payer's alone, except for the
// last few threads: there are at most kMaxThreads, made when they are needed and ended when they
// are not. They are not joined, as they may never come back; what they have not closed goes with
// the process.
class Closer {
 public:
  static constexpr size_t kMaxThreads = 64;

  Closer();
  ~Closer();  // what is left is still closed, as long as the process lives
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // `work` closes something; work of one payer is done in order. Does not block.
  void Run(const Uid& payer, UniqueFunction<void()> work);
  void Close(const Uid& payer, UniqueFd fd);

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
};

// A descriptor that a client has passed: the closer closes it, whichever thread releases it.
class PassedFd {
 public:
  PassedFd() = default;
  // One of our own: closed by the thread that releases it.
  PassedFd(UniqueFd fd) : fd_(std::move(fd)) {}  // NOLINT(google-explicit-constructor)
  PassedFd(UniqueFd fd, std::shared_ptr<Closer> closer, Uid payer)
      : fd_(std::move(fd)), closer_(std::move(closer)), payer_(std::move(payer)) {}
  ~PassedFd() { Reset(); }
  PassedFd(PassedFd&&) noexcept = default;
  PassedFd& operator=(PassedFd&& other) noexcept;

  int get() const { return fd_.get(); }
  explicit operator bool() const { return static_cast<bool>(fd_); }
  void Reset();

 private:
  UniqueFd fd_;
  std::shared_ptr<Closer> closer_;
  Uid payer_;
};

}  // namespace onecopy::os
