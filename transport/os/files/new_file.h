// A file that has its name only once all of it is there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

// Until Name it has none at all where the file system can do that (O_TMPFILE), so that whatever
// ends this process leaves nothing behind; else it has a temporary one beside its own, which the
// destructor removes. One thread at a time; all calls block as the file system does. Failures of
// writing are RESOURCE_EXHAUSTED (NO_SPACE) where that is why.
class NewFile {
 public:
  // What has the name now, and is replaced: the new one takes over its mode, its owner where this
  // process may give files away, its access list and, as far as this process may read and write
  // them, the attributes (xattrs) `user.*` and `security.selinux`.
  struct Replaced {
    UniqueFd file;  // O_PATH will do
    uint32_t mode = 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
  };
  struct Ask {
    mode_t mode = 0600;  // of one that replaces nothing; as open(2) takes it, under the umask
    bool named = false;  // has a temporary name from the beginning
  };

  // In the folder, to be called `name`; messages call it `label`. Nothing is written yet.
  static Result<NewFile> Make(UniqueFd folder, std::string name, std::string label, const Ask& ask);
  // Goes on with a file that is there, under the temporary name `partial`, and open for reading and
  // writing. It keeps that name until Name or Discard, whatever ends this process.
  static Result<NewFile> Continue(UniqueFd folder, std::string name, std::string label,
                                  UniqueFd file, std::string partial);
  NewFile(NewFile&& other) noexcept;
  ~NewFile();

  int fd() const { return file_.get(); }  // open for reading and writing

  // Whether it has its temporary name: others may have removed that, or given it to another file.
  bool HasTemporary() const;
  // Removes it; another file that has got its temporary name stays. After that, only SyncFolder may
  // be called.
  void Discard();

  Status SetLength(uint64_t bytes);
  // Makes it that long, all zeros, and takes the space for it; NO_SPACE where the file system can
  // tell beforehand that there is not as much.
  Status Reserve(uint64_t bytes);
  // What it takes after; its mode, whatever the umask.
  void TakeAfter(Replaced replaced) { replaced_ = std::move(replaced); }
  void SetMode(uint32_t mode) { mode_ = mode; }

  // Once nothing writes to it any more: it is as it is to be. `sync`: and the disk has it.
  Status Settle(bool sync);
  // Gives it its name, in place of what has that. NOT_FOUND and FAILED_PRECONDITION (FILE_IN_USE)
  // where its temporary name was removed, or given to another file, meanwhile. `sync`: and the disk
  // has the name; where only that fails, the name may stand for either.
  Status Name(bool sync);
  // The disk has the names that the folder has now.
  Status SyncFolder() const;

 private:
  NewFile(UniqueFd folder, std::string name, std::string label)
      : folder_(std::move(folder)), name_(std::move(name)), label_(std::move(label)) {}
  Status Open(const Ask& ask);
  Status CheckName() const;
  Status TakeOwners(uint32_t* mode) const;
  Status Resemble() const;
  Status GiveTemporaryName();
  Status CheckTemporary() const;

  UniqueFd folder_;
  std::string name_;  // in it
  std::string label_;
  UniqueFd file_;
  std::string temporary_;  // in the folder, to be removed unless it is kept; empty: nothing
  bool kept_ = false;
  std::optional<Replaced> replaced_;
  std::optional<uint32_t> mode_;
};

// The mode, in which all who may read the file, or none, may run it. Absent: as it is.
mode_t WithExecution(mode_t mode, std::optional<bool> executable);

// "writing X: …", and what to do where the disk is full.
Status WriteFailure(int error, const std::string& what);

// Whether the folder has the open file under that name: 0; ESTALE where another file has it; else
// why that cannot be told.
int CheckNames(int folder, const std::string& name, int fd);

// Takes the space for these bytes of the file, whose length stays. NO_SPACE where the file system
// can tell that there is not as much.
Status ReserveSpace(int fd, uint64_t offset, uint64_t bytes, const std::string& label);
// Gives the space of these bytes back, which are zero before and after. A file system that cannot
// do that keeps it.
void PunchHole(int fd, uint64_t offset, uint64_t bytes);

// What is left to do once all is written to an open file: with `sync` the disk has it. A network
// file system may find only where a descriptor is closed that the disk is full, so one is.
Status SettleFile(int fd, bool sync, const std::string& label);

}  // namespace onecopy::os
