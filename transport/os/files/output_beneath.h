// One file below a folder, open for writing.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/files/look_beneath.h"
#include "transport/os/files/new_file.h"

namespace onecopy::os {

// A file that is written as a whole is a NewFile: what was there stays as it is until Commit. One
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
    // Which symbolic links lead on to its folder; one under its own name never does.
    Links links = Links::kNone;
  };

  // The file at `path`, relative to the folder `root`, whose folder is found as OpenBeneath finds
  // one, and must be there. NOT_FOUND (FILE_NOT_FOUND), also of what would be written in place;
  // PERMISSION_DENIED (ACCESS_DENIED) for a link, for what this process may not write, and in place
  // for a file with other names, which may lie outside, or whose set-user-ID or set-group-ID bit
  // would outlive its contents; INVALID_ARGUMENT (BAD_HANDLE) where something else than a regular
  // file is there; RESOURCE_EXHAUSTED (NO_SPACE) where the file system can tell beforehand.
  // Messages call the file `name`.
  static Result<std::shared_ptr<OutputBeneath>> Open(const std::string& root,
                                                     const std::string& path,
                                                     const std::string& name, const Ask& ask);
  OutputBeneath(const OutputBeneath&) = delete;
  OutputBeneath& operator=(const OutputBeneath&) = delete;

  int fd() const { return new_ ? new_->fd() : plain_.get(); }
  int direct_fd() const { return direct_ ? direct_.get() : -1; }  // opened with O_DIRECT; -1: none

  // Whether nothing but zeros is in it yet, up to its length.
  bool is_new() const { return new_.has_value(); }

  // Makes it what its name stands for, in the folder that was found by Open. `sync`: once the disk
  // has it, and returns once it has its name. It takes after a file that is replaced, except for
  // set-user-ID, set-group-ID and sticky bits. CANCELLED where `stop` is set before it has the
  // name, RESOURCE_EXHAUSTED (NO_SPACE); the file that was there then still is, except where only
  // the last step of `sync` failed.
  Status Commit(bool sync, const std::atomic<bool>& stop);

 private:
  explicit OutputBeneath(std::string name) : name_(std::move(name)) {}
  // Keeps what is there now.
  Status Inspect(const Ask& ask);
  Status OpenInPlace(const Ask& ask);
  Status OpenNew(const Ask& ask);

  const std::string name_;
  UniqueFd folder_;
  std::string final_name_;  // in it
  std::optional<NewFile::Replaced> found_;
  std::optional<NewFile> new_;  // empty: written in place, by `plain_`
  UniqueFd plain_;
  UniqueFd direct_;
};

}  // namespace onecopy::os
