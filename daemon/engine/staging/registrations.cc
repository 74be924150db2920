#include "daemon/engine/staging/registrations.h"

#include <algorithm>

#include "daemon/engine/base/routes.h"
#include "daemon/engine/staging/registration_check.h"
#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr const char* kByDescriptor = "dma-buf";
constexpr uint64_t kThreads = 4;  // for one device's memory

}  // namespace

std::string Registrations::NextWorker(const Region& region) {
  return "register " + WorkerOf(region.place()) + " " + std::to_string(calls_++ % kThreads);
}

bool Registrations::Entry::Covers(const std::vector<std::string>& wanted) const {
  if (all) return true;
  return !wanted.empty() && std::all_of(wanted.begin(), wanted.end(),
                                        [this](const auto& nic) { return nics.contains(nic); });
}

void Registrations::Ensure(const std::string& link_name, const RegionRef& region,
                           const std::string& client_buffer, const std::vector<std::string>& nics,
                           const Owner& payer, StatusReply reply) {
  if (context_.FindLink(link_name) == nullptr) {
    return reply({Code::kFailedPrecondition, reasons::kLinkMissing,
                  "node " + context_.node() + " has no link \"" + link_name + "\""});
  }
  if (region->slab() != nullptr) {
    return reply(
        {Code::kFailedPrecondition, reasons::kNotApplicable,
         "links cannot reach " + region->step_name() + " memory: only its client can copy it",
         "use a path that goes through slots"});
  }
  std::erase_if(entries_, [](const auto& entry) {
    return entry.second.waiting.empty() && entry.second.region.expired();
  });
  const Key key{link_name, region.get()};
  Entry& entry = entries_[key];
  if (entry.done && (!entry.refused.ok() || entry.Covers(nics))) return reply(entry.refused);
  entry.region = region;
  entry.waiting.push_back({nics, payer, std::move(reply)});
  if (entry.waiting.size() == 1) Ask(key, region, client_buffer, nics, payer);
}

void Registrations::Ask(const Key& key, const RegionRef& region, const std::string& client_buffer,
                        const std::vector<std::string>& nics, const Owner& payer) {
  entries_.at(key).asking = nics;
  Link* const link = context_.FindLink(key.first);
  context_.workers.Run<std::vector<NicRegistration>>(
      {NextWorker(*region), payer}, [link, region, nics] { return link->Register(region, nics); },
      [this, key, region, client_buffer,
       payer](const Result<std::vector<NicRegistration>>& outcome) {
        Registered(key, region, client_buffer, payer, outcome);
      });
}

void Registrations::Registered(const Key& key, const RegionRef& region,
                               const std::string& client_buffer, const Owner& payer,
                               const Result<std::vector<NicRegistration>>& outcome) {
  if (!outcome.ok()) {
    // Whatever it was: memory that one link cannot take may go another way.
    const Status& why = outcome.status();
    return Conclude(key, region, client_buffer, payer,
                    {Code::kFailedPrecondition, why.reason(), why.message(), why.remedy()});
  }
  RegistrationCheck::Params check{key.first, region, client_buffer, {}, payer};
  for (const NicRegistration& nic : *outcome) {
    if (nic.status.ok() && nic.how == kByDescriptor) check.nics.push_back(nic.nic);
  }
  // What is not mapped here has nothing to be compared with: the descriptor is all there is. What
  // one device has shown of a descriptor holds for all: it names the same memory to each.
  const bool known = entries_.at(key).done;
  const bool mapped = region->address() != nullptr;
  if (client_buffer.empty() || check.nics.empty() || region->bytes() == 0 || !mapped || known) {
    return Conclude(key, region, client_buffer, payer, OkStatus());
  }
  std::make_shared<RegistrationCheck>(context_, connections_, std::move(check))
      ->Start([this, key, region, client_buffer, payer](const Status& status) {
        if (!status.ok()) {
          log::Warning("a link cannot use a client's memory",
                       {{"link", key.first}, {"why", status.ToString()}});
        }
        Conclude(key, region, client_buffer, payer, status);
      });
}

void Registrations::Conclude(const Key& key, const RegionRef& region,
                             const std::string& client_buffer, const Owner& payer,
                             const Status& status) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  std::vector<Waiting> waiting = std::exchange(entry.waiting, {});
  const std::vector<std::string> asked = std::exchange(entry.asking, {});
  if (status.ok()) {
    entry.all = entry.all || asked.empty();
    entry.nics.insert(asked.begin(), asked.end());
  }
  const bool last_word = status.ok() || status.reason() == reasons::kBadHandle;
  entry.refused = status;
  entry.done = last_word;
  const Entry now = {entry.region, entry.done, entry.refused, entry.all, entry.nics, {}, {}};
  if (!last_word) entries_.erase(found);
  if (status.ok() && !now.all) TellTheRest(key, region, payer);
  for (Waiting& one : waiting) {
    if (!status.ok() || now.Covers(one.nics)) {
      one.reply(status);
    } else {
      Ensure(key.first, region, client_buffer, one.nics, one.payer, std::move(one.reply));
    }
  }
}

// So that what uses other lanes later finds it known there.
void Registrations::TellTheRest(const Key& key, const RegionRef& region, const Owner& payer) {
  Link* const link = context_.FindLink(key.first);
  context_.workers.Run<std::vector<NicRegistration>>(
      {NextWorker(*region), payer}, [link, region] { return link->Register(region, {}); },
      [this, key](const Result<std::vector<NicRegistration>>& outcome) {
        const auto found = entries_.find(key);
        if (outcome.ok() && found != entries_.end()) found->second.all = true;
      });
}

}  // namespace onecopy::engine
