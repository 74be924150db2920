#include "transport/store/posix/registered_files.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>

#include "transport/os/base/unique_fd.h"

namespace onecopy::posix {

int RegisteredFiles::Add(int fd) {
  if (fd < 0 || !MakeTable() || free_.empty()) return kNone;
  const int place = free_.back();
  if (!Update(place, fd)) return kNone;
  free_.pop_back();
  return place;
}

void RegisteredFiles::Remove(int place) {
  if (place < 0) return;
  // What cannot be removed stays until the ring goes, and its place is not used again.
  if (Update(place, -1)) free_.push_back(place);
}

bool RegisteredFiles::MakeTable() {
  if (made_ || refused_) return made_;
  made_ = ::io_uring_register_files_sparse(&ring_, most_) == 0 && LetsGo();
  refused_ = !made_;
  for (unsigned place = most_; made_ && place > 0; --place) {
    free_.push_back(static_cast<int>(place) - 1);
  }
  return made_;
}

bool RegisteredFiles::LetsGo() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  const os::UniqueFd reader(ends[0]);
  {
    const os::UniqueFd writer(ends[1]);
    if (!Update(0, writer.get()) || !Update(0, -1)) return false;
  }
  pollfd hung_up{reader.get(), POLLIN, 0};
  return ::poll(&hung_up, 1, 0) == 1 && (hung_up.revents & POLLHUP) != 0;
}

bool RegisteredFiles::Update(int place, int fd) {
  return ::io_uring_register_files_update(&ring_, static_cast<unsigned>(place), &fd, 1) == 1;
}

}  // namespace onecopy::posix
