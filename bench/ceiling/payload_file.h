// A file that holds a payload, in the page cache or out of it.
#pragma once

#include <memory>
#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::bench {

// One thread at a time. The file goes with the object.
class PayloadFile {
 public:
  // Makes nothing yet. RESOURCE_EXHAUSTED (NO_SPACE) where the file system has no room for it.
  static Result<std::unique_ptr<PayloadFile>> Plan(const std::string& path, uint64_t bytes);
  ~PayloadFile() { Remove(); }
  PayloadFile(const PayloadFile&) = delete;
  PayloadFile& operator=(const PayloadFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }

  // Open for both, through the page cache; -1 before Put or MakeEmpty.
  int fd() const { return fd_.get(); }
  // Another descriptor of it, past the page cache. FAILED_PRECONDITION (NOT_APPLICABLE) where its
  // file system has no such way.
  Result<os::UniqueFd> OpenDirect() const;

  // The payload of this seed, which is then on the disk and in the page cache.
  Status Put(uint64_t seed);
  // A new file with room for the payload and nothing in it.
  Status MakeEmpty();
  // Takes all of it out of the page cache, and looks whether it is. Nothing for files that are
  // memory. FAILED_PRECONDITION where something of it stays there.
  Status Drop();
  // Whether all of it is in the page cache.
  Result<bool> Cached() const;
  // Whether whatever is at the path now, which something may have been renamed to, is that payload.
  Result<bool> Holds(uint64_t seed) const;
  void Remove();

 private:
  PayloadFile(std::string path, uint64_t bytes) : path_(std::move(path)), bytes_(bytes) {}
  Status Failed(int error, const std::string& what) const;
  Result<uint64_t> PagesInCache() const;

  const std::string path_;
  const uint64_t bytes_;
  bool in_memory_ = false;
  os::UniqueFd fd_;
};

}  // namespace onecopy::bench
