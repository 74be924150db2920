#include "transport/os/files/beneath.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "onecopy/reasons.h"
#include "transport/os/files/descriptor_kind.h"

namespace onecopy::os {

Result<FileBeneath> OpenBeneath(const std::string& root, const std::string& path,
                                const std::string& name, bool direct, Links links) {
  const UniqueFd folder(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return FailureBeneath(errno, "opening", name);
  const UniqueFd found = LookBeneath(folder.get(), path, links);
  if (!found) return FailureBeneath(errno, "opening", name);
  struct stat facts {};
  if (::fstat(found.get(), &facts) != 0) return FailureBeneath(errno, "opening", name);
  if (S_ISLNK(facts.st_mode)) return FailureBeneath(ELOOP, "opening", name);
  if (!S_ISREG(facts.st_mode)) {
    return Status(Code::kInvalidArgument, reasons::kBadHandle,
                  name + " is not a regular file: it is " + DescribeDescriptor(found.get()),
                  "name a regular file");
  }
  // That very file, whatever its name stands for by now: so no FIFO or device, and no O_NONBLOCK,
  // which rings of io_uring would take at its word.
  const std::string self = "/proc/self/fd/" + std::to_string(found.get());
  constexpr int kFlags = O_RDONLY | O_NOCTTY | O_CLOEXEC;
  FileBeneath opened;
  opened.plain = UniqueFd(::open(self.c_str(), kFlags));
  if (!opened.plain) return FailureBeneath(errno, "opening", name);
  if (direct) opened.direct = UniqueFd(::open(self.c_str(), kFlags | O_DIRECT));
  return opened;
}

}  // namespace onecopy::os
