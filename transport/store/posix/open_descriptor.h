// Examines a descriptor that a client has passed: what it is, and how it can be read or written.
#pragma once

#include <cstdint>
#include <memory>

#include "onecopy/result.h"
#include "transport/core/contracts/store.h"
#include "transport/store/posix/cached_reads.h"
#include "transport/store/posix/drive_places.h"
#include "transport/store/posix/mounts.h"

namespace onecopy::posix {

// What goes directly begins, ends and lies at multiples of this: no device asks for more, and what
// goes through the page cache beside it is never in one page with it.
inline constexpr uint64_t kGrain = 4096;

struct FileFacts {
  uint64_t bytes = 0;
  const FileSystemKind* kind = nullptr;
  Verdict verdict = {};                     // on reads of this mount
  bool direct = false;                      // the second descriptor is worth using for this
  std::unique_ptr<Mounts::Turn> turn = {};  // reads of this one are to be measured both ways
  DrivePlace drive = {};
  uint64_t zero_until = 0;  // of a new file that is written: up to its length
  // It is read, and most of that is in memory already.
  bool cached = false;
  std::unique_ptr<CachedReads::Turn> who = {};  // it is to be measured who copies that faster
};

// May block for as long as the file system likes. Fails as Store::Open.
Result<FileFacts> InspectDescriptor(const OpenFileRequest& request, Mounts& mounts,
                                    DrivePlaces& drives, CachedReads& cached_reads);

// Whether a part of this range is in the page cache; false where the kernel does not say. A call
// that does not wait.
bool IsCached(int fd, uint64_t offset, uint64_t bytes);

}  // namespace onecopy::posix
