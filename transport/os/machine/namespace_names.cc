#include "transport/os/machine/namespace_names.h"

#include <algorithm>

#include "transport/core/base/uid.h"

namespace onecopy::os {
namespace {

// Each holds up to two descriptors.
constexpr size_t kMaxUnused = 64;

std::string Numbers(const ProcessNamespaces& seen) {
  std::string text;
  if (!seen.user.own) text = std::string(Uid::kUserPart) + std::to_string(*seen.user.number);
  if (seen.pid.own) return text;
  return text + (text.empty() ? "pid" : ".pid") + std::to_string(*seen.pid.number);
}

}  // namespace

NamespaceNames::Name NamespaceNames::Of(const ProcessNamespaces& seen) {
  if (seen.user.own && seen.pid.own) return {};
  const MutexLock lock(mutex_);
  const bool shown = (seen.user.own || seen.user.number) && (seen.pid.own || seen.pid.number);
  if (shown) return Numbered(seen);
  const std::string user = seen.user.own ? std::string() : std::string(Uid::kUserPart) + ".";
  return {user + std::string(Uid::kAlonePart) + "-" + std::to_string(++alone_), nullptr, true};
}

NamespaceNames::Name NamespaceNames::Numbered(const ProcessNamespaces& seen) {
  const Key key{seen.user.own ? 0 : *seen.user.number, seen.pid.own ? 0 : *seen.pid.number};
  auto found = held_.find(key);
  if (found == held_.end()) {
    MakeRoom();
    Held held;
    held.descriptors =
        std::make_shared<std::pair<std::shared_ptr<UniqueFd>, std::shared_ptr<UniqueFd>>>(
            seen.user.own ? nullptr : seen.user.held, seen.pid.own ? nullptr : seen.pid.held);
    const uint32_t times = ++times_[key];
    held.text = Numbers(seen) + (times == 1 ? "" : "-" + std::to_string(times));
    found = held_.emplace(key, std::move(held)).first;
  }
  found->second.last_named = ++named_;
  return {found->second.text, found->second.descriptors, false};
}

void NamespaceNames::MakeRoom() {
  const auto unused = [](const auto& entry) { return entry.second.descriptors.use_count() == 1; };
  if (std::count_if(held_.begin(), held_.end(), unused) < static_cast<ptrdiff_t>(kMaxUnused))
    return;
  auto oldest = held_.end();
  for (auto entry = held_.begin(); entry != held_.end(); ++entry) {
    if (!unused(*entry)) continue;
    if (oldest == held_.end() || entry->second.last_named < oldest->second.last_named)
      oldest = entry;
  }
  held_.erase(oldest);
}

}  // namespace onecopy::os
