#include "transport/store/posix/held_memory.h"

#include <algorithm>
#include <utility>

#include "onecopy/size.h"
#include "transport/store/posix/registered_memory.h"

namespace onecopy::posix {
namespace {

// The ring's loop alone keeps a ring's memory for a moment: it releases it.
void Tell(os::EventLoop& loop, std::weak_ptr<RegisteredMemory> ring, std::weak_ptr<Region> region) {
  loop.Post([ring = std::move(ring), region = std::move(region)] {
    if (const auto memory = ring.lock()) memory->Hold(region);
  });
}

}  // namespace

void HeldMemory::Add(const RegionRef& memory) {
  if (memory->address() == nullptr || memory->bytes() == 0) return;
  {
    const MutexLock lock(mutex_);
    std::erase_if(regions_, [](const auto& one) { return one.expired(); });
    const bool known = std::any_of(regions_.begin(), regions_.end(),
                                   [&](const auto& one) { return one.lock() == memory; });
    if (known) return;
    regions_.emplace_back(memory);
    for (const Ring& ring : rings_) Tell(*ring.loop, ring.memory, memory);
  }
  memory->OnRelease([self = weak_from_this()] {
    if (const auto held = self.lock()) held->Gone();
  });
}

void HeldMemory::Join(os::EventLoop& loop, const std::shared_ptr<RegisteredMemory>& ring) {
  const MutexLock lock(mutex_);
  for (const std::weak_ptr<Region>& region : regions_) Tell(loop, ring, region);
  rings_.push_back({&loop, ring.get(), ring});
}

void HeldMemory::Leave(const RegisteredMemory* ring) {
  const MutexLock lock(mutex_);
  rings_.remove_if([ring](const Ring& one) { return one.key == ring; });
}

void HeldMemory::Gone() {
  const MutexLock lock(mutex_);
  for (const Ring& ring : rings_) {
    ring.loop->Post([weak = ring.memory] {
      if (const auto memory = weak.lock()) memory->LetGo();
    });
  }
}

void HeldMemory::Registered(int64_t bytes) {
  const MutexLock lock(mutex_);
  bytes_ += bytes;
}

void HeldMemory::Refused(const std::string& why) {
  const MutexLock lock(mutex_);
  refused_ = why;
}

std::map<std::string, std::string> HeldMemory::Describe() const {
  const MutexLock lock(mutex_);
  std::map<std::string, std::string> words;
  if (bytes_ > 0) words["registered_memory"] = FormatBytes(static_cast<uint64_t>(bytes_));
  if (!refused_.empty()) words["not_registered"] = refused_;
  return words;
}

}  // namespace onecopy::posix
