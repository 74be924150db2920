// One file below a folder, as what bytes are written to.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "onecopy/result.h"
#include "transport/os/unique_fd.h"

namespace onecopy::os {

// A file that is written as a whole has no name until Commit, where the file system can do that
// (O_TMPFILE), so that whatever ends this process leaves nothing behind; else it has a temporary
// one beside its own, which the destructor removes. What was there stays as it is until then. One
// thread at a time; all calls, and the destructor, block as the file system does.
class OutputBeneath {
 public:
  struct Ask {
    // A part of a file that is there already is written, rather than the whole of one.
    bool in_place = false;
    bool read_back = false;     // what was written will be read, too
    bool only_look = false;     // nothing is going to be written: no space is taken for it
    bool named = false;         // has a temporary name from the beginning
    uint64_t offset_bytes = 0;  // what will be written
    uint64_t bytes = 0;
    uint32_t mode = 0640;  // of a new file
  };

  // The file at `path`, relative to the folder `root`, found as OpenBeneath finds it; its folder
  // must be there. NOT_FOUND (FILE_NOT_FOUND), also of what would be written in place;
  // PERMISSION_DENIED (ACCESS_DENIED) for a link, for what this process may not write, and in place
  // for a file with other names, which may lie outside, or whose set-user-ID or set-group-ID bit
  // would outlive its contents; INVALID_ARGUMENT (BAD_HANDLE) where something else than a regular
  // file is there; RESOURCE_EXHAUSTED (NO_SPACE) where the file system can tell beforehand.
  // Messages call the file `name`.
  static Result<std::shared_ptr<OutputBeneath>> Open(const std::string& root,
                                                     const std::string& path,
                                                     const std::string& name, const Ask& ask);
  ~OutputBeneath();
  OutputBeneath(const OutputBeneath&) = delete;
  OutputBeneath& operator=(const OutputBeneath&) = delete;

  int fd() const { return plain_.get(); }
  int direct_fd() const { return direct_ ? direct_.get() : -1; }  // opened with O_DIRECT; -1: none

  // Makes it what its name stands for, in the folder that was found by Open. `sync`: once the disk
  // has it, and returns once it has its name. A file that is replaced keeps its mode, but for
  // set-user-ID, set-group-ID and sticky bits, and its owner where this process may give files
  // away. CANCELLED where `stop` is set before it has the name, RESOURCE_EXHAUSTED (NO_SPACE); the
  // file that was there then still is, except where only the last step of `sync` failed.
  Status Commit(bool sync, const std::atomic<bool>& stop);

 private:
  // What is under the name now.
  struct Target {
    bool exists = false;
    uint32_t mode = 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
  };

  explicit OutputBeneath(std::string name) : name_(std::move(name)) {}
  // Keeps what is to be written in place.
  Status Inspect(const Ask& ask);
  Status OpenInPlace(const Ask& ask);
  Status OpenNew(const Ask& ask);
  Status Reserve(const Ask& ask) const;
  Status GiveName();
  Status TakeAfter() const;

  const std::string name_;
  UniqueFd folder_;
  std::string final_name_;  // in it
  Target target_;
  UniqueFd found_;  // in place: what is there
  UniqueFd plain_;
  UniqueFd direct_;
  bool in_place_ = false;
  std::string temporary_;  // in the folder, to be removed; empty: nothing
};

}  // namespace onecopy::os
