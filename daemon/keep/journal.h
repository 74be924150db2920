// Records in memory that outlives the process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "onecopy/result.h"
#include "transport/os/mapping.h"
#include "transport/os/unique_fd.h"

namespace onecopy::keep {

// A table of texts by key, in a memory file. Each change is written behind the last one, and counts
// once it is complete, so a process that is killed in the middle of one leaves the table as it was
// before. Where the file is full, what still counts goes to its other half. No change is a system
// call. One thread at a time.
class Journal {
 public:
  using Records = std::map<std::string, std::string>;

  static constexpr uint64_t kHalfBytes = uint64_t{64} << 20;

  // An empty one. RESOURCE_EXHAUSTED.
  static Result<std::unique_ptr<Journal>> Make(uint64_t half_bytes = kHalfBytes);
  // The one that is in the file. INVALID_ARGUMENT (BAD_HANDLE) for a file that is no journal, is
  // one of another version of this program, or can be cut short.
  static Result<std::unique_ptr<Journal>> Open(os::UniqueFd file);

  int fd() const { return file_.get(); }
  const Records& records() const { return records_; }
  // Of the file, behind the first change that could not be read; 0 where all could.
  uint64_t unread_bytes() const { return unread_; }

  // RESOURCE_EXHAUSTED (NO_MEMORY) where what counts would fill more than half of a half: nothing
  // has changed then. `minor`: of half as much, so that there is always room for what is not.
  Status Put(const std::string& key, const std::string& value, bool minor = false);
  void Erase(const std::string& key);  // always finds room

 private:
  struct Head;

  Journal(os::UniqueFd file, os::Mapping mapping);

  Head& head() const;
  std::byte* Half(uint64_t which) const;
  void Read();
  bool Append(std::string_view key, std::string_view value, bool erase);
  void Compact();

  os::UniqueFd file_;
  os::Mapping mapping_;
  Records records_;
  uint64_t live_ = 0;  // bytes that these take in a half
  uint64_t unread_ = 0;
};

}  // namespace onecopy::keep
