// A daemon's connection to the process that holds its memory (daemon/holder).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/holder/protocol.h"
#include "onecopy/result.h"
#include "transport/os/unique_fd.h"

namespace onecopy::keep {

// One thread at a time. Each call waits for the holder's answer, a few seconds at most.
class HolderLink {
 public:
  // UNAVAILABLE where no holder listens; ABORTED where the one there still serves another daemon
  // after `patience`, DEADLINE_EXCEEDED where it does not answer; PERMISSION_DENIED for another
  // user's; FAILED_PRECONDITION (NOT_SERVED) for one of another protocol.
  static Result<HolderLink> Connect(const std::string& path, std::chrono::milliseconds hold_for,
                                    std::chrono::milliseconds patience);

  int fd() const { return socket_.get(); }

  Status Hold(uint64_t number, int fd);
  Status Release(uint64_t number);
  Status ReleaseAll();
  // All that is held, as copies.
  Result<std::map<uint64_t, os::UniqueFd>> TakeAll();

 private:
  explicit HolderLink(os::UniqueFd socket) : socket_(std::move(socket)) {}

  struct Answer {
    holder::Message message;
    os::UniqueFd fd;
  };
  Result<Answer> Ask(const holder::Message& question, int fd = -1);
  Status AskDone(const holder::Message& question);

  os::UniqueFd socket_;
};

}  // namespace onecopy::keep
