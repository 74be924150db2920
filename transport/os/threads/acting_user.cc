#include "transport/os/threads/acting_user.h"

#include <linux/capability.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace onecopy::os {

void ActFor(const Uid& user, uint32_t gid) {
  if (::geteuid() != 0 || user == Uid(0)) return;
  // These, and capset by its number, are of the calling thread alone.
  ::setfsgid(gid);
  ::setfsuid(user.number);
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> kept{};
  if (::syscall(SYS_capget, &header, kept.data()) != 0) return;
  for (__user_cap_data_struct& part : kept) part.effective = part.inheritable = 0;
  ::syscall(SYS_capset, &header, kept.data());
}

}  // namespace onecopy::os
