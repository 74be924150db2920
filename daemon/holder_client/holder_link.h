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
#include "transport/os/base/unique_fd.h"

namespace onecopy::holder {

// One thread at a time. Each call waits up to 5 s for the holder's answer.
class HolderLink {
 public:
  // UNAVAILABLE if no holder listens; ABORTED if it still serves another daemon after `patience`;
  // DEADLINE_EXCEEDED if it does not answer; PERMISSION_DENIED if it runs as another user;
  // FAILED_PRECONDITION (NOT_SERVED) if it speaks another protocol.
  static Result<HolderLink> Connect(const std::string& path, std::chrono::milliseconds hold_for,
                                    std::chrono::milliseconds patience);

  int fd() const { return socket_.get(); }

  Status Hold(uint64_t number, int fd);
  Status Release(uint64_t number);
  Status ReleaseAll();
  // Copies of all descriptors, by number.
  Result<std::map<uint64_t, os::UniqueFd>> TakeAll();

 private:
  explicit HolderLink(os::UniqueFd socket) : socket_(std::move(socket)) {}

  struct Answer {
    Message message;
    os::UniqueFd fd;
  };
  Result<Answer> Ask(const Message& question, int fd = -1);
  Status AskDone(const Message& question);

  os::UniqueFd socket_;
};

}  // namespace onecopy::holder
