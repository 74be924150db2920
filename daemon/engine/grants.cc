#include "daemon/engine/grants.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "daemon/engine/paging.h"
#include "transport/core/contains.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMostGrants = 65536;
constexpr size_t kMostExpired = 64;  // remembered, of one buffer
constexpr std::chrono::hours kLongest{24 * 3653};

// Ids in text sort like their numbers, as pages need it.
GrantId MakeId(uint64_t number) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "grant-%012llu", static_cast<unsigned long long>(number));
  return GrantId(text.data());
}

}  // namespace

Result<GrantInfo> Grants::Create(const Buffer& buffer, const ByteRange& range, const Owner& to,
                                 bool read, bool write,
                                 std::optional<std::chrono::milliseconds> lifetime) {
  if (!read && !write) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument, "a grant of nothing",
                  "grant read, write or both");
  }
  if (lifetime && (lifetime->count() <= 0 || *lifetime > kLongest)) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "a grant lives for more than nothing and at most ten years",
                  "leave the time out for no end");
  }
  if (grants_.size() >= kMostGrants) {
    return Status(Code::kResourceExhausted, reasons::kQuota,
                  "node " + context_.node() + " has as many grants as it takes", "remove some");
  }
  Grant grant{MakeId(next_++), buffer.id, buffer.name, range, to, read, write, std::nullopt};
  if (lifetime) {
    grant.expire_time = std::chrono::system_clock::now() + *lifetime;
    context_.loop.RunAfter(*lifetime, [this, id = grant.id] {
      if (const Grant* ended = Find(id)) {
        std::vector<Owner>& expired = expired_[ended->buffer];
        if (expired.size() < kMostExpired) expired.push_back(ended->to);
        Delete(id, {Code::kPermissionDenied, reasons::kGrantExpired, id.str() + " has expired"});
      }
    });
  }
  const GrantInfo info = Describe(grant);
  grants_.emplace(grant.id.str(), std::move(grant));
  return info;
}

const Grants::Grant* Grants::Find(const GrantId& id) const {
  const auto found = grants_.find(id.str());
  return found == grants_.end() ? nullptr : &found->second;
}

void Grants::Delete(const GrantId& id, const Status& why) {
  const auto ended = grants_.extract(id.str());
  if (!ended.empty() && ended_) ended_(ended.mapped(), why);
}

void Grants::DropBuffer(BufferId buffer) {
  std::erase_if(grants_, [&](const auto& entry) { return entry.second.buffer == buffer; });
  expired_.erase(buffer);
}

Result<std::optional<GrantId>> Grants::Check(const Principal& who, const Buffer& buffer,
                                             const ByteRange& range, Access access) const {
  if (owners_.Owns(who, buffer.owner)) return std::optional<GrantId>();
  const Owner asking{who.uid, who.node};
  for (const auto& [id, grant] : grants_) {
    if (grant.buffer == buffer.id && (access == Access::kRead ? grant.read : grant.write) &&
        Contains(grant.range, range) && owners_.Same(grant.to, asking)) {
      return std::optional<GrantId>(grant.id);
    }
  }
  const char* verb = access == Access::kRead ? "read" : "write";
  const auto expired = expired_.find(buffer.id);
  if (expired != expired_.end() &&
      std::any_of(expired->second.begin(), expired->second.end(),
                  [&](const Owner& to) { return owners_.Same(to, asking); })) {
    return Status(Code::kPermissionDenied, reasons::kGrantExpired,
                  "the right of " + asking.ToString() + " to " + verb + " buffer \"" + buffer.name +
                      "\" has expired",
                  "ask its owner " + buffer.owner.ToString() + " for another");
  }
  return Status(Code::kPermissionDenied, reasons::kNotOwner,
                asking.ToString() + " may not " + verb + " bytes " + std::to_string(range.offset) +
                    "+" + std::to_string(range.bytes) + " of buffer \"" + buffer.name +
                    "\" on node " + context_.node(),
                "its owner " + buffer.owner.ToString() + " can allow it: onecopy grant add");
}

bool Grants::Sees(const Principal& who, const Buffer& buffer) const {
  if (owners_.Owns(who, buffer.owner)) return true;
  return std::any_of(grants_.begin(), grants_.end(), [&](const auto& entry) {
    return entry.second.buffer == buffer.id && owners_.Same(entry.second.to, {who.uid, who.node});
  });
}

GrantInfo Grants::Describe(const Grant& grant) {
  return {grant.id,   grant.buffer_name, grant.range,      grant.to.ToString(),
          grant.read, grant.write,       grant.expire_time};
}

Result<Page<GrantInfo>> Grants::List(const PageRequest& page,
                                     const std::function<bool(const Grant&)>& wanted) const {
  return TakePage<GrantInfo>(
      page, grants_, [](const auto& entry) { return entry.first; },
      [&](const auto& entry) { return wanted(entry.second); },
      [](const auto& entry) { return Describe(entry.second); });
}

}  // namespace onecopy::engine
