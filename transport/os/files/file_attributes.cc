#include "transport/os/files/file_attributes.h"

#include <linux/limits.h>
#include <sys/xattr.h>

#include <cerrno>
#include <optional>
#include <vector>

#include "onecopy/result.h"
#include "transport/os/base/error.h"

namespace onecopy::os {
namespace {

constexpr char kAccessList[] = "system.posix_acl_access";
constexpr char kLabel[] = "security.selinux";

// By what the kernel calls the descriptor, as the calls for descriptors take none of O_PATH.
std::vector<std::string> NamesOf(const std::string& self) {
  std::string text(XATTR_LIST_MAX, '\0');
  const ssize_t bytes = ::listxattr(self.c_str(), text.data(), text.size());
  std::vector<std::string> names;
  for (ssize_t at = 0; at < bytes; at += static_cast<ssize_t>(names.back().size()) + 1) {
    names.emplace_back(text.c_str() + at);
  }
  return names;
}

std::optional<std::string> ValueOf(const std::string& self, const std::string& name) {
  std::string value(XATTR_SIZE_MAX, '\0');
  const ssize_t bytes = ::getxattr(self.c_str(), name.c_str(), value.data(), value.size());
  if (bytes < 0) return std::nullopt;
  value.resize(static_cast<size_t>(bytes));
  return value;
}

// Also where the file system has none, or does not say (ENOTSUP).
Status CopyAccessList(const std::string& self, int to, const std::string& label) {
  const std::optional<std::string> list = ValueOf(self, kAccessList);
  const bool unknown = !list && errno != ENODATA && errno != ENOTSUP;
  if (!unknown && !list &&
      (::fremovexattr(to, kAccessList) == 0 || errno == ENODATA || errno == ENOTSUP)) {
    return OkStatus();
  }
  if (list && ::fsetxattr(to, kAccessList, list->data(), list->size(), 0) == 0) return OkStatus();
  return ErrnoStatus(errno, "keeping the access list of " + label,
                     "write a new file, and set its access rights afterwards");
}

}  // namespace

Status CopyAttributes(int from, int to, const std::string& label) {
  const std::string self = "/proc/self/fd/" + std::to_string(from);
  ONECOPY_RETURN_IF_ERROR(CopyAccessList(self, to, label));
  for (const std::string& name : NamesOf(self)) {
    if (!name.starts_with("user.") && name != kLabel) continue;
    if (const auto value = ValueOf(self, name)) {
      static_cast<void>(::fsetxattr(to, name.c_str(), value->data(), value->size(), 0));
    }
  }
  return OkStatus();
}

}  // namespace onecopy::os
