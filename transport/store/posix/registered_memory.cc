#include "transport/store/posix/registered_memory.h"

#include <sys/uio.h>

#include <algorithm>
#include <string>

#include "onecopy/size.h"
#include "transport/os/base/error.h"
#include "transport/os/memory/mapping.h"
#include "transport/store/posix/held_memory.h"

namespace onecopy::posix {

RegisteredMemory::RegisteredMemory(io_uring& ring, HeldMemory& held, const Shape& shape)
    : ring_(ring), told_(held), shape_(shape) {
  if (const auto limit = os::LockedMemoryLimit()) {
    refused_ = true;
    told_.Refused("this process may lock " + FormatBytes(*limit) +
                  ", which is reserved for RDMA devices: set LimitMEMLOCK=infinity");
  }
}

RegisteredMemory::~RegisteredMemory() {
  for (const Part& part : table_) told_.Registered(-static_cast<int64_t>(part.bytes));
}

void RegisteredMemory::Hold(const std::weak_ptr<Region>& memory) {
  if (refused_) return;
  const RegionRef region = memory.lock();
  if (region == nullptr) return;
  const size_t parts = (region->bytes() + shape_.part_bytes - 1) / shape_.part_bytes;
  held_.push_back(
      {memory, region.get(), region->address(), region->bytes(), std::vector<int>(parts, kNone)});
}

void RegisteredMemory::LetGo() {
  std::erase_if(held_, [this](const Held& memory) {
    if (!memory.region.expired()) return false;
    for (const int part : memory.parts) {
      if (part >= 0) Unregister(part);
    }
    return true;
  });
}

int RegisteredMemory::Begin(const Region* region, const std::byte* at, uint64_t bytes) {
  // Who asks keeps the region: what has its address and lives is the same one.
  const auto found = std::find_if(held_.begin(), held_.end(), [region](const Held& one) {
    return one.key == region && !one.region.expired();
  });
  if (found == held_.end() || bytes == 0) return kNone;
  const auto from = static_cast<uint64_t>(at - found->address);
  const size_t place = from / shape_.part_bytes;
  if (from + bytes > found->bytes || (from + bytes - 1) / shape_.part_bytes != place) return kNone;
  int& part = found->parts[place];
  if (part == kNone) part = Register(*found, place);
  if (part < 0) return kNone;
  ++table_[static_cast<size_t>(part)].under_way;
  return part;
}

void RegisteredMemory::End(int part) {
  if (part < 0) return;
  Part& one = table_[static_cast<size_t>(part)];
  if (--one.under_way == 0 && one.gone) Unregister(part);
}

bool RegisteredMemory::MakeTable() {
  if (refused_) return false;
  if (!table_.empty()) return true;
  const int error = -::io_uring_register_buffers_sparse(&ring_, shape_.most_parts);
  if (error != 0) {
    refused_ = true;
    told_.Refused("this kernel's rings have no table for memory: " + os::ErrnoText(error));
    return false;
  }
  table_.resize(shape_.most_parts);
  for (unsigned part = shape_.most_parts; part > 0; --part) {
    free_.push_back(static_cast<int>(part) - 1);
  }
  return true;
}

int RegisteredMemory::Register(const Held& memory, size_t place) {
  if (!MakeTable()) return kRefused;
  if (free_.empty()) return kNone;
  const uint64_t begin = place * shape_.part_bytes;
  const uint64_t bytes = std::min(shape_.part_bytes, memory.bytes - begin);
  const int part = free_.back();
  if (const int done = Update(part, memory.address + begin, bytes); done != 1) {
    told_.Refused("the kernel registers no " + FormatBytes(bytes) +
                  " of memory: " + os::ErrnoText(done < 0 ? -done : 0));
    return kRefused;
  }
  free_.pop_back();
  table_[static_cast<size_t>(part)].bytes = bytes;
  told_.Registered(static_cast<int64_t>(bytes));
  return part;
}

void RegisteredMemory::Unregister(int part) {
  Part& one = table_[static_cast<size_t>(part)];
  one.gone = one.under_way > 0;
  if (one.gone) return;
  if (Update(part, nullptr, 0) != 1) return;  // stays as it is until the ring goes
  told_.Registered(-static_cast<int64_t>(one.bytes));
  one = {};
  free_.push_back(part);
}

int RegisteredMemory::Update(int part, std::byte* address, uint64_t bytes) {
  const iovec memory{address, bytes};
  const __u64 no_tag = 0;
  return ::io_uring_register_buffers_update_tag(&ring_, static_cast<unsigned>(part), &memory,
                                                &no_tag, 1);
}

}  // namespace onecopy::posix
