#include "daemon/engine/registrations.h"

#include "daemon/engine/move.h"
#include "daemon/engine/registration_check.h"
#include "daemon/log/log.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {
namespace {

constexpr const char* kByDescriptor = "dma-buf";

}  // namespace

void Registrations::Ensure(const std::string& link_name, const RegionRef& region,
                           const std::string& client_buffer, StatusReply reply) {
  Link* link = context_.FindLink(link_name);
  if (link == nullptr) {
    return reply({Code::kFailedPrecondition, reasons::kLinkMissing,
                  "node " + context_.node() + " has no link \"" + link_name + "\""});
  }
  std::erase_if(entries_, [](const auto& entry) {
    return entry.second.waiting.empty() && entry.second.region.expired();
  });
  const Key key{link_name, region.get()};
  Entry& entry = entries_[key];
  if (entry.done) return reply(entry.refused);
  entry.region = region;
  entry.waiting.push_back(std::move(reply));
  if (entry.waiting.size() > 1) return;
  context_.workers.Run<std::vector<NicRegistration>>(
      WorkerOf(region->place()), [link, region] { return link->Register(region); },
      [this, key, region, client_buffer](const Result<std::vector<NicRegistration>>& outcome) {
        Registered(key, region, client_buffer, outcome);
      });
}

void Registrations::Registered(const Key& key, const RegionRef& region,
                               const std::string& client_buffer,
                               const Result<std::vector<NicRegistration>>& outcome) {
  if (!outcome.ok()) {
    // Whatever it was: memory that one link cannot take may go another way.
    const Status& why = outcome.status();
    return Conclude(key, {Code::kFailedPrecondition, why.reason(), why.message(), why.remedy()});
  }
  RegistrationCheck::Order check{key.first, region, client_buffer, {}};
  for (const NicRegistration& nic : *outcome) {
    if (nic.status.ok() && nic.how == kByDescriptor) check.nics.push_back(nic.nic);
  }
  // What is not mapped here has nothing to be compared with: the descriptor is all there is.
  const bool mapped = region->address() != nullptr;
  if (client_buffer.empty() || check.nics.empty() || region->bytes() == 0 || !mapped) {
    return Conclude(key, OkStatus());
  }
  std::make_shared<RegistrationCheck>(context_, connections_, std::move(check))
      ->Start([this, key](const Status& status) {
        if (!status.ok()) {
          log::Warning("memory is not used by a link",
                       {{"link", key.first}, {"why", status.ToString()}});
        }
        Conclude(key, status);
      });
}

void Registrations::Conclude(const Key& key, const Status& status) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  std::vector<StatusReply> waiting = std::exchange(found->second.waiting, {});
  found->second.done = status.ok() || status.reason() == reasons::kBadHandle;
  found->second.refused = status;
  if (!found->second.done) entries_.erase(found);
  for (StatusReply& reply : waiting) reply(status);
}

}  // namespace onecopy::engine
