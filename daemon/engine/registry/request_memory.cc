#include "daemon/engine/registry/request_memory.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "transport/os/machine/machine.h"

namespace onecopy::engine {
namespace {

constexpr int kSlices = 8;

}  // namespace

RequestMemory::RequestMemory(Context& context)
    : context_(context),
      key_(os::RandomNumber()),
      slice_(std::max<os::Clock::duration>(context.options.limits.request_memory / kSlices,
                                           std::chrono::milliseconds(1))) {}

uint64_t RequestMemory::Digest(const std::string& kind, const std::string& request_id) const {
  const std::string text = kind + " " + request_id;
  return XXH3_64bits_withSeed(text.data(), text.size(), key_);
}

RequestMemory::Content RequestMemory::ContentOf(const std::string& content) const {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(content.data(), content.size(), key_);
  return {hash.high64, hash.low64};
}

Result<Ledger::Charge> RequestMemory::Take(const Owner& who, bool administrator) {
  return context_.ledger.Take(Charged::kRequestIds, who, administrator);
}

void RequestMemory::Remember(const Owner& who, uint64_t digest, Ledger::Charge room) {
  std::deque<Slice>& slices = slices_[who];
  const os::Clock::time_point now = os::Clock::now();
  if (slices.empty() || slices.back().until <= now) slices.push_back({now + slice_, {}, {}});
  slices.back().digests.Insert(digest);
  slices.back().room.Absorb(std::move(room));
  if (timer_ == 0) timer_ = context_.loop.RunAfter(slice_, [this] { Forget(); });
}

bool RequestMemory::Knows(const Owner& who, uint64_t digest) const {
  const auto of = slices_.find(who);
  return of != slices_.end() &&
         std::any_of(of->second.begin(), of->second.end(),
                     [&](const Slice& slice) { return slice.digests.Contains(digest); });
}

void RequestMemory::Forget() {
  timer_ = 0;
  const os::Clock::time_point before = os::Clock::now() - context_.options.limits.request_memory;
  for (auto of = slices_.begin(); of != slices_.end();) {
    std::deque<Slice>& slices = of->second;
    while (!slices.empty() && slices.front().until <= before) slices.pop_front();
    of = slices.empty() ? slices_.erase(of) : std::next(of);
  }
  if (!slices_.empty()) timer_ = context_.loop.RunAfter(slice_, [this] { Forget(); });
}

}  // namespace onecopy::engine
