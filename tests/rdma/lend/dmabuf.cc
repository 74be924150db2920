#include "tests/rdma/lend/dmabuf.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>
#include <unordered_map>

#include "tests/rdma/lend/control.h"

namespace onecopy::lend {
namespace {

constexpr int kAllowed = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                         IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING;
constexpr int kNeedLocalWrite = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

struct Mapping {
  void* base;
  size_t length;
  void* registered;  // mr->addr as the real library must see it again
};

std::mutex mappings_mutex;
std::unordered_map<const ibv_mr*, Mapping>& Mappings() {
  static auto* const mappings = new std::unordered_map<const ibv_mr*, Mapping>;
  return *mappings;
}

ibv_mr* Refuse(int error) {
  errno = error;
  return nullptr;
}

bool IsDmaBuf(int fd) {
  char target[64] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return ::readlink(link.c_str(), target, sizeof target - 1) > 0 &&
         std::string(target).rfind("/dmabuf:", 0) == 0;
}

}  // namespace

ibv_mr* RegisterDmaBuf(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                       int access) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0) return nullptr;
  const std::string memory = IsDmaBuf(fd) ? MemoryBehind(status.st_ino) : std::string();
  if (memory.empty()) return Real().ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);

  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  if ((access & ~kAllowed) != 0) return Refuse(EINVAL);
  if ((access & kNeedLocalWrite) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    return Refuse(EINVAL);
  if (offset % page != iova % page) return Refuse(EINVAL);
  const off_t size = ::lseek(fd, 0, SEEK_END);
  uint64_t end = 0;
  if (size < 0 || __builtin_add_overflow(offset, length, &end) || end > static_cast<uint64_t>(size))
    return Refuse(EINVAL);

  const int memory_fd = ::open(memory.c_str(), O_RDWR | O_CLOEXEC);
  if (memory_fd < 0) return nullptr;
  Mapping mapping = {nullptr, offset % page + length, nullptr};
  mapping.base = ::mmap(nullptr, mapping.length, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd,
                        static_cast<off_t>(offset - offset % page));
  const int error = errno;
  ::close(memory_fd);
  if (mapping.base == MAP_FAILED) return Refuse(error);

  mapping.registered = static_cast<char*>(mapping.base) + offset % page;
  // Soft-RoCE knows no relaxed ordering, and ibv_reg_mr_iova2 leaves it out by itself.
  ibv_mr* const mr = Real().ibv_reg_mr_iova2(pd, mapping.registered, length, iova,
                                             static_cast<unsigned int>(access));
  if (mr == nullptr) {
    const int refusal = errno;
    ::munmap(mapping.base, mapping.length);
    return Refuse(refusal);
  }
  mr->addr = reinterpret_cast<void*>(offset);  // what the real call leaves there: no address
  const std::lock_guard lock(mappings_mutex);
  Mappings().emplace(mr, mapping);
  return mr;
}

int Deregister(ibv_mr* mr) {
  std::unique_lock lock(mappings_mutex);
  const auto found = Mappings().find(mr);
  if (found == Mappings().end()) {
    lock.unlock();
    return Real().ibv_dereg_mr(mr);
  }
  const Mapping mapping = found->second;
  void* const address = mr->addr;
  mr->addr = mapping.registered;
  // Forgotten before the call: another thread may get a region at the same address right after it.
  Mappings().erase(found);
  lock.unlock();
  const int error = Real().ibv_dereg_mr(mr);
  if (error == 0) {
    ::munmap(mapping.base, mapping.length);
    return 0;
  }
  mr->addr = address;
  lock.lock();
  Mappings().emplace(mr, mapping);
  return error;
}

}  // namespace onecopy::lend
