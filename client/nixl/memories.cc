#include "client/nixl/memories.h"

#include <optional>
#include <utility>

#include "client/nixl/grants.h"
#include "client/nixl/names.h"
#include "client/nixl/shared_file.h"
#include "onecopy/reasons.h"
#include "transport/shim/cuda.h"

namespace onecopy::nixl {
namespace {

bool Holds(const Memory& memory, uintptr_t address, uint64_t bytes) {
  return address >= memory.place.address && bytes <= memory.bytes &&
         address - memory.place.address <= memory.bytes - bytes;
}

// The whole allocation of GPU memory around the range, which all descriptors in it then share; the
// range itself where the driver does not say, and registering it will.
void WidenToAllocation(uintptr_t& address, uint64_t& bytes) {
  const auto cuda = shim::LoadCuda();
  CUdeviceptr start = 0;
  size_t whole = 0;
  if (!cuda || (*cuda)->MemGetAddressRange(&start, &whole, address) != CUDA_SUCCESS) return;
  if (start > address || whole < bytes || address - start > whole - bytes) return;
  address = start;
  bytes = whole;
}

// By the way that takes the fewest copies. `file`: the one that the memory is shared by, if any.
Status RegisterBytes(Client& client, const Memory& memory, const std::optional<SharedFile>& file) {
  const Place& place = memory.place;
  if (memory.segment == abi::Segment::kVram) {
    return client.RegisterCuda(place.buffer, place.address, memory.bytes).status();
  }
  if (file) {
    return client.RegisterMemfd(place.buffer, file->fd.get(), file->offset, memory.bytes).status();
  }
  return client.RegisterMemory(place.buffer, reinterpret_cast<void*>(place.address), memory.bytes)
      .status();
}

}  // namespace

Memories::Memories(std::vector<std::string> grant_to)
    : grant_to_(std::move(grant_to)), prefix_(RandomName()) {}

Result<std::shared_ptr<const Memory>> Memories::Register(Client& client, abi::Segment segment,
                                                         uintptr_t address, uint64_t bytes) {
  if (segment == abi::Segment::kVram) WidenToAllocation(address, bytes);
  const MutexLock lock(mutex_);
  // Few are long enough to lie around the address from far before it, so the look back is short.
  for (auto at = entries_.upper_bound({segment, address}); at != entries_.begin();) {
    --at;
    if (at->first.first != segment) break;
    if (!Holds(*at->second.memory, address, bytes)) continue;
    ++at->second.users;
    return at->second.memory;
  }
  auto memory = std::make_shared<Memory>(
      Memory{segment, bytes, {"", prefix_ + "-" + std::to_string(next_), address}});
  ONECOPY_ASSIGN_OR_RETURN(memory->own, Make(client, *memory));
  ++next_;
  entries_.emplace(Key{segment, address}, Entry{memory, 1});
  return std::shared_ptr<const Memory>(memory);
}

bool Memories::Leave(const std::shared_ptr<const Memory>& memory) {
  const MutexLock lock(mutex_);
  const auto [first, last] = entries_.equal_range({memory->segment, memory->place.address});
  for (auto at = first; at != last; ++at) {
    if (at->second.memory != memory) continue;
    if (--at->second.users > 0) return false;
    entries_.erase(at);
    return true;
  }
  return false;
}

Status Memories::Restore(Client& client) {
  const MutexLock lock(mutex_);
  for (const LostBuffer& lost : client.session().lost) {
    for (const auto& [key, entry] : entries_) {
      if (entry.memory->place.buffer != lost.was.name) continue;
      ONECOPY_RETURN_IF_ERROR(Make(client, *entry.memory).status());
    }
  }
  return OkStatus();
}

Result<bool> Memories::Make(Client& client, const Memory& memory) const {
  const bool host = memory.segment == abi::Segment::kDram;
  const std::optional<SharedFile> file =
      host ? FindSharedFile(memory.place.address, memory.bytes) : std::nullopt;
  ONECOPY_RETURN_IF_ERROR(RegisterBytes(client, memory, file));
  if (Status granted = GrantTo(client, memory.place.buffer, grant_to_); !granted.ok()) {
    static_cast<void>(client.DeleteBuffer(memory.place.buffer, true));
    return granted;
  }
  return host && !file;
}

}  // namespace onecopy::nixl
