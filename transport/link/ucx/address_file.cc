#include "transport/link/ucx/address_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "onecopy/reasons.h"
#include "transport/link/ucx/offer.h"
#include "transport/os/base/error.h"

namespace onecopy::ucx {
namespace {

constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

Status Refused(const std::string& why) {
  return {Code::kPermissionDenied, reasons::kAccessDenied,
          "the peer's ucx address does not belong to a process of this machine and user: " + why,
          "run both daemons as one user and in one PID namespace, or name the peer under [ucx] "
          "trust and set [tls]"};
}

}  // namespace

Result<os::UniqueFd> PublishAddress(const std::string& address) {
  const std::string sealed = Seal(address);
  os::UniqueFd fd(::memfd_create("onecopy-ucx-address", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd ||
      ::write(fd.get(), sealed.data(), sealed.size()) != static_cast<ssize_t>(sealed.size()) ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0) {
    return os::ErrnoStatus(errno, "keeping the ucx address in a file in memory");
  }
  return fd;
}

Result<std::string> ReadAddress(uint32_t process, uint32_t descriptor) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(descriptor);
  const os::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd) return Refused(os::ErrnoText(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != ::geteuid()) {
    return Refused("the file belongs to another user");
  }
  // Only a file in memory has seals; with all of them, what is read now is what it always was.
  if (::fcntl(fd.get(), F_GET_SEALS) != kSeals) return Refused("the file is not sealed");
  if (info.st_size <= 0 || info.st_size > static_cast<off_t>(kMaxAddressBytes) + 64) {
    return Refused("the file has the wrong size");
  }
  std::string sealed(static_cast<size_t>(info.st_size), '\0');
  if (::pread(fd.get(), sealed.data(), sealed.size(), 0) != static_cast<ssize_t>(sealed.size())) {
    return Refused("the file cannot be read");
  }
  return Unseal(sealed);
}

}  // namespace onecopy::ucx
