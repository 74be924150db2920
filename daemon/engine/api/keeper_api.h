// What outlives this daemon's process, as the engine asks for it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "onecopy/result.h"
#include "transport/os/unique_fd.h"

namespace onecopy::engine {

// Memory by its descriptors, and texts that say what it is: the next process of this daemon finds
// both as they were when this one ended, however that was.
class KeeperApi {
 public:
  struct Left {
    std::map<std::string, std::string> records;    // by key
    std::map<uint64_t, os::UniqueFd> descriptors;  // by number
  };

  virtual ~KeeperApi() = default;

  // What the process before this one has left. Once, before all else; may block.
  virtual Left TakeLeft() = 0;

  // Any thread; blocks for an answer of another process. From then on the descriptor's file lives
  // without this process. UNAVAILABLE where nothing keeps it.
  virtual Status Hold(uint64_t number, int fd) = 0;
  // Likewise; what is not held is not an error.
  virtual void Release(uint64_t number) = 0;
  // Any thread; may block. Once what holds has been lost: finds or starts another, which has
  // nothing of the engine's yet but its records.
  virtual Status Renew() = 0;
  // To be watched for its end (EPOLLRDHUP): what holds is gone then, and so is this descriptor once
  // Renew has succeeded. -1: it is gone already.
  virtual int lost_fd() const = 0;

  // Engine thread; no system call. RESOURCE_EXHAUSTED; `minor` ones leave room for others.
  virtual Status Put(const std::string& key, const std::string& value, bool minor) = 0;
  virtual void Erase(const std::string& key) = 0;
};

}  // namespace onecopy::engine
