#include "daemon/engine/registry/grants.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "daemon/engine/base/names.h"
#include "daemon/engine/base/paging.h"
#include "daemon/log/audit.h"
#include "onecopy/range.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMaxExpired = 64;  // remembered, of one buffer
constexpr std::chrono::hours kLongest{24 * 3653};

constexpr size_t kBootDigits = 8;

// Ids in text sort like their numbers, as pages need it. They tell by which start of the daemon
// they were given: one from before must not name another grant now.
GrantId MakeId(const std::string& boot_id, uint64_t number) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "-%012llu", static_cast<unsigned long long>(number));
  return GrantId("grant-" + boot_id.substr(0, kBootDigits) + text.data());
}

}  // namespace

Grants::Grants(Context& context, Owners& owners, const Sessions& sessions, Records& records)
    : context_(context), owners_(owners), sessions_(sessions), records_(records) {}

Result<GrantInfo> Grants::Create(const Principal& who, const Buffer& buffer, const ByteRange& range,
                                 const Owner& to, bool read, bool write,
                                 std::optional<std::chrono::milliseconds> lifetime) {
  if (!read && !write) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "the grant allows neither reading nor writing", "grant read, write or both");
  }
  if (lifetime && (lifetime->count() <= 0 || *lifetime > kLongest)) {
    return Status(Code::kInvalidArgument, reasons::kBadArgument,
                  "a grant's lifetime must be more than 0 and at most ten years",
                  "leave out the time for a grant without end");
  }
  const Owner payer = PayerAt(context_.node(), buffer.owner.node, buffer.owner);
  ONECOPY_ASSIGN_OR_RETURN(Ledger::Charge charge,
                           context_.ledger.Take(Charged::kGrants, payer, who.administrator));
  Grant grant{MakeId(context_.boot_id, next_++),
              buffer.id,
              buffer.name,
              range,
              to,
              read,
              write,
              std::nullopt,
              buffer.owner};
  if (lifetime) {
    grant.expire_time = std::chrono::system_clock::now() + *lifetime;
    ExpireAfter(grant, *lifetime);
  }
  grant.charge = std::move(charge);
  const GrantInfo info = Describe(grant);
  if (buffer.held != nullptr) {
    records_.Put(
        GrantRecord{grant.id, grant.buffer, grant.range, grant.to, read, write, grant.expire_time});
  }
  Enter(std::move(grant));
  return info;
}

bool Grants::Restore(const Buffer& buffer, const GrantRecord& record) {
  std::chrono::milliseconds left{0};
  if (record.expire_time) {
    left = std::chrono::ceil<std::chrono::milliseconds>(*record.expire_time -
                                                        std::chrono::system_clock::now());
    if (left.count() <= 0) return false;
  }
  if (!records_.CanName(record.to) || grants_.contains(record.id.str())) return false;
  if (!Contains({0, buffer.bytes}, record.range)) return false;
  const Owner payer = PayerAt(context_.node(), buffer.owner.node, buffer.owner);
  Result<Ledger::Charge> charge = context_.ledger.Take(Charged::kGrants, payer, true);
  if (!charge.ok()) return false;
  Grant grant{record.id,   buffer.id,    buffer.name,        record.range, record.to,
              record.read, record.write, record.expire_time, buffer.owner};
  if (record.expire_time) ExpireAfter(grant, left);
  grant.charge = std::move(*charge);
  Enter(std::move(grant));
  return true;
}

void Grants::ExpireAfter(Grant& grant, std::chrono::milliseconds lifetime) {
  grant.timer = context_.loop.RunAfter(lifetime, [this, id = grant.id] {
    if (const Grant* ended = Find(id)) {
      std::vector<Owner>& expired = expired_[ended->buffer];
      if (expired.size() < kMaxExpired) expired.push_back(ended->to);
      Delete(id, {Code::kPermissionDenied, reasons::kGrantExpired, id.str() + " has expired"});
    }
  });
}

void Grants::Enter(Grant grant) {
  of_buffer_[grant.buffer][grant.to].insert(grant.id.str());
  ++granted_[grant.to][grant.buffer];
  std::string id = grant.id.str();
  grants_.emplace(std::move(id), std::move(grant));
}

const Grants::Grant* Grants::Find(const GrantId& id) const {
  const auto found = grants_.find(id.str());
  return found == grants_.end() ? nullptr : &found->second;
}

void Grants::Delete(const GrantId& id, const Status& why) {
  const auto ended = grants_.extract(id.str());
  if (ended.empty()) return;
  Unlist(ended.mapped());
  if (ended_) ended_(ended.mapped(), why);
}

void Grants::Unlist(const Grant& grant) {
  records_.Erase(grant.id);
  context_.loop.CancelTimer(grant.timer);
  const auto on = of_buffer_.find(grant.buffer);
  const auto to = on->second.find(grant.to);
  to->second.erase(grant.id.str());
  if (to->second.empty()) on->second.erase(to);
  if (on->second.empty()) of_buffer_.erase(on);
  const auto granted = granted_.find(grant.to);
  const auto count = granted->second.find(grant.buffer);
  if (--count->second == 0) granted->second.erase(count);
  if (granted->second.empty()) granted_.erase(granted);
}

void Grants::DropBuffer(BufferId buffer) {
  expired_.erase(buffer);
  const auto on = of_buffer_.find(buffer);
  if (on == of_buffer_.end()) return;
  Ids ended;
  for (auto& [to, ids] : on->second) ended.insert(ids.begin(), ids.end());
  for (const std::string& id : ended) Unlist(grants_.extract(id).mapped());
}

Result<std::optional<GrantId>> Grants::Check(const Principal& who, const Buffer& buffer,
                                             const ByteRange& range, Access access) const {
  if (owners_.Owns(who, buffer.owner)) return std::optional<GrantId>();
  const Owner asking = OwnerOf(who);
  if (const auto on = of_buffer_.find(buffer.id); on != of_buffer_.end()) {
    const Grant* allows = nullptr;
    owners_.ForEachSame(on->second, asking, [&](const Ids& ids) {
      for (auto id = ids.begin(); id != ids.end() && allows == nullptr; ++id) {
        const Grant& grant = grants_.at(*id);
        const bool verb = access == Access::kRead ? grant.read : grant.write;
        if (verb && Contains(grant.range, range)) allows = &grant;
      }
    });
    if (allows != nullptr) return std::optional<GrantId>(allows->id);
  }
  const char* verb = access == Access::kRead ? "read" : "write";
  const auto expired = expired_.find(buffer.id);
  if (expired != expired_.end() &&
      std::any_of(expired->second.begin(), expired->second.end(),
                  [&](const Owner& to) { return owners_.Same(to, asking); })) {
    return Status(Code::kPermissionDenied, reasons::kGrantExpired,
                  "the right of " + asking.ToString() + " to " + verb + " buffer \"" + buffer.name +
                      "\" has expired",
                  "ask its owner " + buffer.owner.ToString() + " for a new grant");
  }
  return Status(Code::kPermissionDenied, reasons::kNotOwner,
                asking.ToString() + " may not " + verb + " bytes " + std::to_string(range.offset) +
                    "+" + std::to_string(range.bytes) + " of buffer \"" + buffer.name +
                    "\" on node " + context_.node(),
                HowToBeAllowed(asking, buffer.owner));
}

Status Grants::CheckWritesSome(const Principal& who, const Buffer& buffer) const {
  bool writes = false;
  if (const auto on = of_buffer_.find(buffer.id); on != of_buffer_.end()) {
    owners_.ForEachSame(on->second, OwnerOf(who), [&](const Ids& ids) {
      writes = writes || std::any_of(ids.begin(), ids.end(), [this](const std::string& id) {
                 return grants_.at(id).write;
               });
    });
  }
  return writes ? OkStatus() : Check(who, buffer, {0, buffer.bytes}, Access::kWrite).status();
}

std::string Grants::HowToBeAllowed(const Owner& asking, const Owner& owner) const {
  const std::string domain = owners_.DomainRemedy(asking, owner);
  return "its owner " + owner.ToString() + " can allow it: onecopy grant add" +
         (domain.empty() ? "" : "; or, " + domain);
}

bool Grants::Knows(const Principal& who, const Buffer& buffer) const {
  if (Sees(who, buffer)) return true;
  const auto expired = expired_.find(buffer.id);
  return expired != expired_.end() &&
         std::any_of(expired->second.begin(), expired->second.end(), [&](const Owner& to) {
           return owners_.Same(to, {who.uid, who.node});
         });
}

Result<Buffer*> Grants::FindKnown(Buffers& buffers, const Principal& who, const std::string& name,
                                  bool files) const {
  const Result<Buffer*> found = buffers.Find(name, files);
  if (found.ok() && Knows(who, **found)) return found;
  if (found.ok()) NoteRefusal(who, **found);
  std::string remedy = "see `onecopy buffer ls " + context_.node() + "`, create it on node " +
                       context_.node() + ": `onecopy buffer create " + Printable(name) +
                       " --size SIZE`, or ask its owner for access: `onecopy grant add`";
  const Owner asking{who.uid, who.node};
  const std::string domain = owners_.DomainRemedy(asking, {who.uid, context_.node()});
  if (!domain.empty()) remedy += "; " + domain;
  return Status(Code::kNotFound, reasons::kBufferNotFound,
                "node " + context_.node() + " has no buffer \"" + Printable(name) + "\" that " +
                    Owner{who.uid, who.node}.ToString() + " may use",
                std::move(remedy));
}

void Grants::NoteRefusal(const Principal& who, const Buffer& buffer) const {
  const std::string asking = OwnerOf(who).ToString();
  const std::string node = context_.IsSelf(who.node) ? std::string() : "node " + who.node;
  const std::string from = who.session.empty() ? node : sessions_.Describe(who.session);
  audit::Write({.who = asking,
                .from = from,
                .what = "use a buffer",
                .on = buffer.name,
                .why = {Code::kPermissionDenied, reasons::kNotOwner,
                        "it belongs to " + buffer.owner.ToString()},
                .account = node});
}

bool Grants::Sees(const Principal& who, const Buffer& buffer) const {
  if (owners_.Owns(who, buffer.owner)) return true;
  const auto on = of_buffer_.find(buffer.id);
  bool sees = false;
  if (on != of_buffer_.end()) {
    owners_.ForEachSame(on->second, OwnerOf(who), [&](const Ids&) { sees = true; });
  }
  return sees;
}

std::set<BufferId> Grants::GrantedTo(const Principal& who) const {
  std::set<BufferId> buffers;
  owners_.ForEachSame(granted_, OwnerOf(who), [&](const std::map<BufferId, size_t>& of) {
    for (const auto& [buffer, count] : of) buffers.insert(buffer);
  });
  return buffers;
}

GrantInfo Grants::Describe(const Grant& grant) const {
  return {grant.id,       grant.buffer_name, grant.range,       grant.to.ToString(),
          grant.read,     grant.write,       grant.expire_time, grant.owner.ToString(),
          context_.node()};
}

Result<Page<GrantInfo>> Grants::List(const PageRequest& page, const std::set<BufferId>& buffers,
                                     const std::optional<Owner>& grantee) const {
  Ids ids;
  for (const BufferId buffer : buffers) {
    const auto on = of_buffer_.find(buffer);
    if (on == of_buffer_.end()) continue;
    for (const auto& [to, some] : on->second) ids.insert(some.begin(), some.end());
  }
  if (grantee) {
    owners_.ForEachSame(granted_, *grantee, [&](const std::map<BufferId, size_t>& of) {
      for (const auto& [buffer, count] : of) {
        owners_.ForEachSame(of_buffer_.at(buffer), *grantee,
                            [&](const Ids& some) { ids.insert(some.begin(), some.end()); });
      }
    });
  }
  return TakePage<GrantInfo>(
      page, ids, [](const std::string& id) { return id; }, [](const std::string&) { return true; },
      [&](const std::string& id) { return Describe(grants_.at(id)); });
}

Result<Page<GrantInfo>> Grants::ListAll(const PageRequest& page) const {
  return TakePage<GrantInfo>(
      page, grants_, [](const auto& entry) { return entry.first; },
      [](const auto&) { return true; },
      [this](const auto& entry) { return Describe(entry.second); });
}

}  // namespace onecopy::engine
