// Descriptors that the kernel's side of a ring knows already.
#pragma once

#include <liburing.h>

#include <vector>

namespace onecopy::posix {

// What is asked of a registered descriptor is not looked up with each call. The loop's thread of
// the ring.
class RegisteredFiles {
 public:
  static constexpr int kNone = -1;
  static constexpr unsigned kMost = 256;

  // `ring` outlives it.
  explicit RegisteredFiles(io_uring& ring, unsigned most = kMost) : ring_(ring), most_(most) {}
  RegisteredFiles(const RegisteredFiles&) = delete;
  RegisteredFiles& operator=(const RegisteredFiles&) = delete;

  // Its place in the table, until Remove; kNone if the table is full, or the kernel's table does
  // not release a file at once (before Linux 6.13 that may take a second, in which a written file
  // could not be executed, nor its file system unmounted).
  int Add(int fd);
  // Nothing of it is under way. The descriptor is closed afterwards, lest the kernel be the one
  // that closes it.
  void Remove(int place);

 private:
  bool MakeTable();  // once; false: there is none
  // Whether a file that was removed is gone, found out by the end of a pipe.
  bool LetsGo();
  bool Update(int place, int fd);

  io_uring& ring_;
  const unsigned most_;
  bool refused_ = false;
  bool made_ = false;
  std::vector<int> free_;
};

}  // namespace onecopy::posix
