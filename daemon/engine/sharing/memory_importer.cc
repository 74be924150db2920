#include "daemon/engine/sharing/memory_importer.h"

#include <algorithm>
#include <utility>

#include "daemon/engine/base/routes.h"
#include "daemon/handover/client.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr size_t kMaxHeld = 256;
constexpr std::chrono::milliseconds kFetchPatience{2000};
// Fetching waits for another daemon, which must not hold up calls about this node's own devices.
constexpr const char* kFetchWorker = "borrow";

// "vmm-fd" of form "cuda-vmm" with a descriptor, "ipc-handle" of "cuda-ipc".
std::string HowShared(const ImportRequest& memory) {
  const size_t dash = memory.form.rfind('-');
  const std::string form = dash == std::string::npos ? memory.form : memory.form.substr(dash + 1);
  return form + (memory.fd >= 0 ? "-fd" : "-handle");
}

// Whatever it was: a transfer may take another path.
Status CannotImport(const Status& why) {
  return {Code::kFailedPrecondition, why.reason(), why.message(), why.remedy()};
}

}  // namespace

MemoryImporter::UseRef MemoryImporter::Find(const std::string& node, const std::string& buffer,
                                            Purpose purpose) {
  for (auto& [key, held] : held_) {
    if (key.first == node && held.buffer == buffer && held.region != nullptr && !held.dropped) {
      return NewUse(key, held, {std::move(purpose)});
    }
  }
  return nullptr;
}

std::set<Owner> MemoryImporter::Held::RoutesOf() const {
  std::set<Owner> payers;
  const auto add = [&payers](const User& user) {
    if (user.purpose.route_of) payers.insert(*user.purpose.route_of);
  };
  for (const auto& [number, user] : uses) add(user);
  for (const auto& [user, reply] : waiting) add(user);
  return payers;
}

Status MemoryImporter::CheckRoutes(const std::string& node, const std::string& buffer,
                                   const Owner& payer) const {
  size_t theirs = 0;
  size_t all = 0;
  for (const auto& [key, held] : held_) {
    const std::set<Owner> payers = held.RoutesOf();
    const bool has = payers.contains(payer);
    if (has && key.first == node && held.buffer == buffer) return OkStatus();
    theirs += has ? 1 : 0;
    all += payers.empty() ? 0 : 1;
  }
  if (theirs < kMaxHeld / 4 && all < kMaxHeld / 4 * 3) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kQuota,
          "routes of " + payer.ToString() + " keep memory of " + std::to_string(theirs) +
              " buffers of other daemons mapped, and those of all users " + std::to_string(all),
          "end sessions that no longer need theirs"};
}

void MemoryImporter::Get(const std::string& node, const std::string& buffer,
                         const std::string& kind, const MemoryExport& loan, Purpose purpose,
                         Reply<UseRef> reply) {
  Memory* memory = context_.FindMemory(kind);
  if (memory == nullptr) {
    return reply(Status(Code::kFailedPrecondition, reasons::kNotServed,
                        "this onecopyd has no memory of that kind"));
  }
  if (purpose.route_of) {
    Status room = CheckRoutes(node, buffer, *purpose.route_of);
    if (!room.ok()) return reply(room);
  }
  const Key key{node, loan.id};
  User user{std::move(purpose)};
  if (const auto found = held_.find(key); found != held_.end()) {
    Held& held = found->second;
    if (held.dropped) {
      return reply(Status(Code::kFailedPrecondition, reasons::kNotShareable,
                          "node " + node + " has just revoked that memory"));
    }
    if (held.region != nullptr) return reply(NewUse(key, held, std::move(user)));
    held.waiting.emplace_back(std::move(user), std::move(reply));
    return;
  }
  if (!MakeRoom()) {
    return reply(Status(Code::kFailedPrecondition, reasons::kQuota,
                        "transfers use memory of " + std::to_string(held_.size()) +
                            " buffers of other daemons, which is the limit",
                        "try again after some have ended"));
  }
  Held& held = held_[key];
  held.buffer = buffer;
  held.waiting.emplace_back(std::move(user), std::move(reply));
  context_.workers.Run<handover::Fetched>(
      kFetchWorker,
      [address = handover::Address{loan.address, loan.token}] {
        return handover::Fetch(address, kFetchPatience);
      },
      [this, key, memory](Result<handover::Fetched> fetched) {
        if (!fetched.ok()) return Fetched(key, {}, fetched.status());
        const std::string how = HowShared(fetched->memory);
        const std::string worker = WorkerOf({memory->kind(), fetched->memory.device});
        context_.workers.Run<std::unique_ptr<Region>>(
            worker,
            [memory, fetched = std::move(*fetched)] {
              ImportRequest request = fetched.memory;
              request.fd = fetched.fd.get();
              return memory->Import(request);
            },
            [this, key, how, worker](Result<std::unique_ptr<Region>> region) {
              if (!region.ok()) return Fetched(key, {}, region.status());
              Fetched(key, how, Share(key, worker, std::move(*region)));
            });
      });
}

// Like Workers::Share, and the exporter that has recalled the memory hears that it is unmapped.
RegionRef MemoryImporter::Share(const Key& key, const std::string& worker,
                                std::unique_ptr<Region> region) {
  const auto found = held_.find(key);
  const std::shared_ptr<Answers> answers =
      found == held_.end() ? std::make_shared<Answers>() : found->second.recalls;
  return RegionRef(region.release(), [&context = context_, worker, answers](Region* last) {
    Task give_back = [&context, last = std::unique_ptr<Region>(last), answers]() mutable {
      last.reset();
      context.loop.Post([answers] { Answer(*answers); });
    };
    if (!context.workers.Post(worker, give_back).ok()) give_back();
  });
}

void MemoryImporter::Answer(Answers& answers) {
  for (StatusReply& reply : std::exchange(answers, {})) reply(OkStatus());
}

void MemoryImporter::Fetched(const Key& key, const std::string& how, Result<RegionRef> region) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;  // at the engine's end
  auto waiting = std::exchange(found->second.waiting, {});
  if (!region.ok() || found->second.dropped) {
    const Status why = region.ok() ? Status(Code::kFailedPrecondition, reasons::kNotShareable,
                                            "node " + key.first + " has revoked that memory")
                                   : CannotImport(region.status());
    const std::shared_ptr<Answers> recalls = found->second.recalls;
    Forget(key);
    if (!region.ok()) Answer(*recalls);
    for (auto& [user, reply] : waiting) reply(why);
    return;
  }
  Held& held = found->second;
  held.region = std::move(*region);
  held.how = how;
  log::Debug("memory borrowed", {{"from", key.first}, {"buffer", held.buffer}, {"by", how}});
  for (auto& [user, reply] : waiting) reply(NewUse(key, held, std::move(user)));
}

MemoryImporter::UseRef MemoryImporter::NewUse(const Key& key, Held& held, User user) {
  context_.loop.CancelTimer(std::exchange(held.idle_timer, 0));
  const uint64_t number = next_use_++;
  held.uses.emplace(number, std::move(user));
  return std::make_unique<Use>(*this, key, number, held.region, held.how);
}

void MemoryImporter::Release(const Key& key, uint64_t number) {
  const auto found = held_.find(key);
  if (found == held_.end()) return;
  Held& held = found->second;
  auto user = held.uses.extract(number);
  if (!user.empty()) Answer(user.mapped().ended);
  if (!held.uses.empty()) return;
  if (held.dropped) return Forget(key);
  held.idle_timer =
      context_.loop.RunAfter(context_.options.imported_idle, [this, key] { Forget(key); });
}

void MemoryImporter::Forget(const Key& key) {
  const auto held = held_.extract(key);
  if (!held.empty()) context_.loop.CancelTimer(held.mapped().idle_timer);
}

void MemoryImporter::Recall(const std::string& node, uint64_t loan, const TransferId& id,
                            StatusReply reply) {
  const auto found = held_.find({node, loan});
  if (found == held_.end()) return reply(OkStatus());
  // Copies: with its last use the entry goes.
  std::vector<Recalled> recalled;
  auto left = std::make_shared<std::pair<size_t, StatusReply>>();
  for (auto& [number, user] : found->second.uses) {
    if (!id.empty() && user.purpose.id != id) continue;
    recalled.push_back(user.purpose.recalled);
    if (id.empty()) continue;
    ++left->first;
    user.ended.emplace_back([left](const Status& status) {
      if (--left->first == 0) left->second(status);
    });
  }
  if (left->first > 0) left->second = std::exchange(reply, nullptr);
  if (id.empty()) {
    found->second.recalls->push_back(std::exchange(reply, nullptr));
    Retire(node, loan);
  }
  for (const Recalled& call : recalled) call();
  if (reply) reply(OkStatus());
}

void MemoryImporter::Retire(const std::string& node, uint64_t loan) {
  const auto found = held_.find({node, loan});
  if (found == held_.end()) return;
  found->second.dropped = true;
  if (found->second.region != nullptr && found->second.uses.empty()) Forget(Key(node, loan));
}

void MemoryImporter::PeerLost(const std::string& node) {
  std::vector<uint64_t> lost;
  for (const auto& [key, held] : held_) {
    if (key.first == node) lost.push_back(key.second);
  }
  for (const uint64_t loan : lost) Retire(node, loan);
}

bool MemoryImporter::MakeRoom() {
  if (held_.size() < kMaxHeld) return true;
  const auto idle = std::find_if(held_.begin(), held_.end(),
                                 [](const auto& entry) { return entry.second.idle_timer != 0; });
  if (idle == held_.end()) return false;
  Forget(Key(idle->first));
  return true;
}

void MemoryImporter::Clear() {
  for (auto& [key, held] : held_) context_.loop.CancelTimer(held.idle_timer);
  held_.clear();
}

}  // namespace onecopy::engine
