#include "transport/os/memory/own_mapping.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdio>
#include <fstream>

#include "transport/os/base/unique_fd.h"

namespace onecopy::os {
namespace {

// linux/fs.h has these from Linux 6.11 on, as procmap_query and PROCMAP_QUERY.
struct MapQuery {
  uint64_t size = sizeof(MapQuery);
  uint64_t flags = 0;  // none: the mapping that has the very address
  uint64_t address = 0;
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t rights = 0;
  uint64_t page_bytes = 0;
  uint64_t offset = 0;
  uint64_t inode = 0;
  uint32_t major = 0;
  uint32_t minor = 0;
  uint32_t name_bytes = 0;  // with its zero
  uint32_t build_id_bytes = 0;
  uint64_t name = 0;
  uint64_t build_id = 0;
};
constexpr unsigned long kMapQuery = _IOWR('f', 17, MapQuery);
constexpr uint64_t kMapIsShared = 8;  // of `rights`

}  // namespace

std::optional<OwnMapping> FindOwnMapping(uintptr_t address) {
  const UniqueFd maps(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  std::array<char, PATH_MAX> name = {};
  MapQuery query;
  query.address = address;
  query.name = reinterpret_cast<uintptr_t>(name.data());
  query.name_bytes = name.size();
  if (!maps) return std::nullopt;
  if (::ioctl(maps.get(), kMapQuery, &query) != 0) {
    return errno == ENOENT ? std::nullopt : ReadOwnMapping(address);
  }
  return OwnMapping{query.start,
                    query.end,
                    (query.rights & kMapIsShared) != 0,
                    query.name_bytes > 0 ? name.data() : "",
                    query.offset,
                    makedev(query.major, query.minor),
                    query.inode};
}

std::optional<OwnMapping> ReadOwnMapping(uintptr_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    OwnMapping found;
    std::array<char, 5> access = {};
    unsigned major = 0;
    unsigned minor = 0;
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
                    &found.start, &found.end, access.data(), &found.offset, &major, &minor,
                    &found.inode, &name) < 7 ||
        address < found.start || address >= found.end) {
      continue;
    }
    found.shared = access[3] == 's';
    found.name = line.substr(static_cast<size_t>(name));
    found.device = makedev(major, minor);
    return found;
  }
  return std::nullopt;
}

}  // namespace onecopy::os
