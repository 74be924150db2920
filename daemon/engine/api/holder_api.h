// What survives this daemon's process, as the engine uses it.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::engine {

// The holder keeps descriptors of memory, and records that describe the memory. The next process of
// this daemon finds both as this process left them, even if it was killed.
class HolderApi {
 public:
  struct Left {
    std::map<std::string, std::string> records;    // by key
    std::map<uint64_t, os::UniqueFd> descriptors;  // by number
  };

  virtual ~HolderApi() = default;

  // Returns what the previous process left. Call it once, first. May block.
  virtual Left TakeLeft() = 0;

  // Any thread; waits for the holder's answer. Afterwards, the descriptor's file lives without this
  // process. UNAVAILABLE if no holder is connected.
  virtual Status Hold(uint64_t number, int fd) = 0;
  // Likewise. Does nothing if the number is not held.
  virtual void Release(uint64_t number) = 0;
  // Any thread; may block. After the holder was lost: connects to another one, or starts it. That
  // one has the records and none of the engine's descriptors.
  virtual Status Renew() = 0;
  // Watch this descriptor for EPOLLRDHUP, which says that the holder is lost. Renew closes it when
  // it succeeds. -1 if the holder is lost already.
  virtual int lost_fd() const = 0;

  // How far records of a kind may fill the table, so that there is always room for those of greater
  // weight: all of it, a half, a quarter. (A table fills at most half of the space for it.)
  enum class Share : unsigned { kMajor = 2, kMinor = 4, kLeast = 8 };
  // Engine thread; makes no system call. RESOURCE_EXHAUSTED if the table is full for such a record.
  virtual Status Put(const std::string& key, const std::string& value, Share share) = 0;
  virtual void Erase(const std::string& key) = 0;
};

}  // namespace onecopy::engine
