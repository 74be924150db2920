// Records in memory that outlives the process.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::holder {

// A table of texts by key, in a memory file. Each change is appended, and takes effect when it is
// complete. So a process that is killed in the middle of a change leaves the table as it was
// before. When half of the file is full, the table is copied to the other half. A change makes no
// system call. One thread at a time.
class Journal {
 public:
  using Records = std::map<std::string, std::string>;

  static constexpr uint64_t kHalfBytes = uint64_t{64} << 20;

  // Makes an empty table. RESOURCE_EXHAUSTED.
  static Result<std::unique_ptr<Journal>> Make(uint64_t half_bytes = kHalfBytes);
  // Opens the table in this file. INVALID_ARGUMENT (BAD_HANDLE) if the file is not a journal, has
  // another version, or is not sealed against shrinking.
  static Result<std::unique_ptr<Journal>> Open(os::UniqueFd file);

  int fd() const { return file_.get(); }
  const Records& records() const { return records_; }
  // How many bytes follow the first damaged change; 0 if none is damaged.
  uint64_t unread_bytes() const { return unread_; }

  // RESOURCE_EXHAUSTED (NO_MEMORY) if the table would then fill more than one `part`th of one half
  // of the file, which is at least 2: a text with a smaller share leaves room for the others. Then
  // nothing has changed. A text that replaces a longer one always fits.
  Status Put(const std::string& key, const std::string& value, unsigned part = 2);
  void Erase(const std::string& key);  // always succeeds

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
  uint64_t live_ = 0;  // bytes that these take in the file
  uint64_t unread_ = 0;
};

}  // namespace onecopy::holder
