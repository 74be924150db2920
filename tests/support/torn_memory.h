// Memory of which a part is gone, as a client can make it.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "transport/core/contracts/region.h"
#include "transport/os/memory/fault_guard.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::testing {

// A region of `bytes` bytes, the first `kept` of them 'x' and whole pages; touching the rest is
// SIGBUS for the processor and EFAULT for the kernel. `guarded`: not for the processor.
inline RegionRef TornRegion(uint64_t bytes, uint64_t kept, bool guarded = true) {
  const os::UniqueFd fd(::memfd_create("torn", MFD_CLOEXEC));
  if (!fd || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    throw std::runtime_error("memfd");
  auto mapping = std::make_shared<os::Mapping>(*os::MapShared(fd.get(), bytes));
  std::memset(mapping->data(), 'x', bytes);
  if (::ftruncate(fd.get(), static_cast<off_t>(kept)) != 0) throw std::runtime_error("ftruncate");
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  auto guard = std::make_shared<os::FaultGuard>();
  if (guarded) *guard = os::FaultGuard(mapping->data(), bytes, flag);
  std::byte* const data = mapping->data();
  auto region = std::make_shared<Region>(Place{"host", {}}, data, bytes, true,
                                         [mapping, guard]() mutable { guard.reset(); });
  region->SetFaultFlag(flag);
  return region;
}

}  // namespace onecopy::testing
