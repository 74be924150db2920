// Which way reads take on a mount: past the page cache or through it. Some file systems and devices
// are several times faster the one way, some the other, and only measuring tells.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "transport/core/base/mutex.h"
#include "transport/store/posix/trial.h"

namespace onecopy::posix {

// What is known of a kind of file system, whatever it lies on.
struct FileSystemKind {
  unsigned long magic = 0;  // statfs's f_type
  const char* name = "";
  bool in_memory = false;  // the page cache is the file
  // O_DIRECT is known to do what it says, and to be worth it until something else was measured.
  bool direct = false;
};
// Of one that is not known: no name but its number's, and through the page cache.
const FileSystemKind& KindOf(unsigned long magic);

// How fast the same mount was either way.
struct Verdict {
  bool direct = false;
  // Rate past the page cache over that through it; absent: not measured, and `direct` is the
  // kind's.
  std::optional<double> direct_to_cached = {};

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

// A file of less is not tried: that would be most of the work.
inline constexpr uint64_t kLeastToTryWays = 2 * Trial::kSegments * Trial::kSegmentBytes;

// What a trial came to whose first way was past the page cache. Where neither was clearly faster
// the kind counts.
Verdict JudgeWays(const Trial::Ratios& direct_to_cached, bool kind_direct);

// Of all that the files of one store lie on. Any thread.
class Mounts {
 public:
  // Mounts that are remembered; of others the kind counts.
  static constexpr size_t kMost = 64;

  // Which way reads of this mount go. Makes it known that it is there, and on which drives, in
  // words.
  Verdict Of(dev_t mount, const FileSystemKind& kind, const std::string& drives = {});

  // The right to try a file of this mount: to one at a time, and to none where it was tried. The
  // right ends with the object.
  class Turn;
  std::unique_ptr<Turn> Take(dev_t mount);

  // For people: by mount, what it is and which way reads go.
  std::map<std::string, std::string> Describe() const;

 private:
  struct Known {
    const FileSystemKind* kind = nullptr;
    Verdict verdict;
    std::string drives = {};
    bool trying = false;
    bool tried = false;
  };
  void End(dev_t mount, const std::optional<Verdict>& verdict, bool tried);

  mutable Mutex mutex_;
  std::map<dev_t, Known> known_ ONECOPY_GUARDED_BY(mutex_);
};

class Mounts::Turn {
 public:
  Turn(Mounts& mounts, dev_t mount) : mounts_(mounts), mount_(mount) {}
  ~Turn() { mounts_.End(mount_, verdict_, tried_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // The trial is over: with this verdict, or without any, and then not to be repeated.
  void End(const std::optional<Verdict>& verdict) {
    verdict_ = verdict;
    tried_ = true;
  }

 private:
  Mounts& mounts_;
  const dev_t mount_;
  std::optional<Verdict> verdict_;
  bool tried_ = false;
};

}  // namespace onecopy::posix
