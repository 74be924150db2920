// A local file as the destination of a copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/lib/calls/waiter.h"
#include "client/lib/files/named_file.h"
#include "onecopy/file_copy.h"
#include "onecopy/range.h"
#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/files/new_file.h"

namespace onecopy::client {

// Used by one thread. A file that is written as a whole is an os::NewFile: until Name has
// succeeded, what was there does not change. What is zero for long in it stays a hole.
class OutputFile {
 public:
  // `sync`: Settle and Name return once the disk has all. `read_back`: what was written will be
  // read, too, where the caller may do that. `in_place`: the file is there, and parts of it are
  // written. `write_device` as in FileCopyOptions.
  struct Ask {
    bool sync = false;
    bool read_back = false;
    bool in_place = false;
    bool write_device = false;
  };

  // Whether `bytes` could be written there, as far as that can be known without touching anything.
  // INVALID_ARGUMENT for a folder or a dangling link, or (SIZE_MISMATCH) for too much; NOT_FOUND
  // for a range of a file, or a folder, that does not exist; PERMISSION_DENIED. And a descriptor of
  // such a file: the very one where a range of it would be written, else one without a name in the
  // same folder. Empty where the file system has none.
  static Result<os::UniqueFd> Sample(const LocalFile& file, uint64_t bytes, const Ask& ask);

  // Likewise, and opens it and reserves the space: RESOURCE_EXHAUSTED (NO_SPACE) where the file
  // system can tell beforehand; INVALID_ARGUMENT (BAD_ARGUMENT) for a `sync` of what is on no disk.
  // Blocks for a FIFO without reader.
  static Result<OutputFile> Open(const LocalFile& file, uint64_t bytes, const Ask& ask);
  // Likewise, for a file that is written as a whole (INVALID_ARGUMENT for all else), by a
  // PartialFile, which stays until it has its name, and which may be one that an earlier copy left.
  // Reserves nothing yet, and the file keeps the length that it has.
  // Fails and blocks like OpenPartialFile.
  static Result<OutputFile> Continue(const LocalFile& file, uint64_t bytes, const Ask& ask,
                                     const Waiter& waiter);

  const std::string& name() const { return name_; }

  // For who writes the bytes without Write: -1 for what must be written one after the other.
  int fd() const { return kind_ == Kind::kStream ? -1 : fd_; }
  uint64_t at() const { return at_; }
  // Whether it reads as zeros up to its length, until something is written.
  bool is_new() const { return new_.has_value() && !continued_; }
  // Of Continue: what has the name now, if that is as long as what is to be written, open for
  // reading; -1: nothing, or something else.
  int whole() const { return whole_.get(); }
  // Of Continue, before anything is written: makes the file that long, and takes the space for
  // these parts of it. NO_SPACE like Open.
  Status SetLength(uint64_t bytes) { return new_->SetLength(bytes); }
  Status Reserve(const std::vector<ByteRange>& parts) const;
  // Others, such as the daemon, may write to fd() from now on.
  void LetOthersWrite() { written_ = true; }
  // Of Continue: removes a partial file that has no byte of the payload. True if it did. Where the
  // file system has no holes, one to which others may have written counts as one that has bytes.
  bool DiscardIfEmpty();
  // Of Continue: whether the partial file is there under its name.
  bool HasPartial() const { return new_ && new_->HasTemporary(); }
  // Of Continue, where whole() is what was to be written: removes the partial file.
  Status KeepWhole();
  // Of Continue: the partial file, as messages call it.
  const std::string& partial() const { return partial_; }

  // Where Write goes on, of what is not a stream.
  void Seek(uint64_t offset) { at_ = offset; }

  // Appends. Fails like Waiter::Check, and with RESOURCE_EXHAUSTED (NO_SPACE). Looks at the bytes,
  // so that what is zero for long stays a hole.
  Status Write(const std::byte* from, uint64_t bytes, const Waiter& waiter);
  // The same for bytes that may not be there, which only the kernel looks at: ABORTED
  // (MEMORY_FAULT).
  Status WriteForeign(const std::byte* from, uint64_t bytes, const Waiter& waiter) {
    return kind_ == Kind::kStream ? WriteStream(from, bytes, waiter) : WriteAt(from, bytes, waiter);
  }

  // All has been written: what can fail because of it fails here.
  Status Settle();
  // After Settle: makes it what the name stands for. Where that fails, the file that was there
  // still does; but after the last step of `sync`, that the disk has the name, it may be either.
  Status Name() { return new_ ? new_->Name(sync_) : OkStatus(); }
  Status Commit() {
    ONECOPY_RETURN_IF_ERROR(Settle());
    return Name();
  }

 private:
  enum class Kind {
    kReplaced,  // a regular file, new or as a whole
    kInPlace,   // a range of a file, a block device
    kStream,
  };
  // What the name stands for now. `place` holds the file itself, and `mode` is that file's, without
  // the bits that allow to run it.
  struct Target {
    Kind kind = Kind::kStream;
    NamedFile place;
    bool device = false;
    uint32_t mode = 0;
    uint32_t uid = 0;
    uint32_t gid = 0;
  };

  explicit OutputFile(std::string name) : name_(std::move(name)) {}
  static Result<Target> Inspect(const LocalFile& file, uint64_t bytes, const Ask& ask);
  static Result<Target> InspectNew(const LocalFile& file, NamedFile place);
  Status OpenNew(NamedFile place, const Target& target, uint64_t bytes);
  Status OpenPartial(NamedFile place, const Target& target, uint64_t bytes, const Waiter& waiter);
  void TakePlace(os::NewFile made, NamedFile place, const Target& target);
  Status TakeModeOfNew(os::UniqueFd folder, const std::string& name, bool replaces, uint32_t mode);
  Status OpenInPlace(const Target& target, const Ask& ask);
  Status WriteAt(const std::byte* from, uint64_t bytes, const Waiter& waiter);
  Status WriteStream(const std::byte* from, uint64_t bytes, const Waiter& waiter);

  std::string name_;
  Kind kind_ = Kind::kStream;
  std::optional<os::NewFile> new_;  // kReplaced
  os::UniqueFd owned_;              // else, unless it is the caller's
  os::UniqueFd claim_;              // on a device or a partial file, against others
  os::UniqueFd whole_;              // see whole()
  std::string partial_;             // see partial()
  bool continued_ = false;          // from a partial file that had data
  std::optional<uint32_t> mode_at_end_ = {};
  bool written_ = false;  // perhaps, since it was opened
  int fd_ = -1;
  bool sync_ = false;
  bool socket_ = false;
  uint64_t at_ = 0;  // where the next byte goes, unless it is a stream
};

}  // namespace onecopy::client
