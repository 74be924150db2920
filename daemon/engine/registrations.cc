#include "daemon/engine/registrations.h"

#include "daemon/engine/move.h"
#include "transport/core/reasons.h"

namespace onecopy::engine {

void Registrations::Ensure(const std::string& link_name, const RegionRef& region,
                           StatusReply reply) {
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
  if (entry.done) return reply(OkStatus());
  entry.region = region;
  entry.waiting.push_back(std::move(reply));
  if (entry.waiting.size() > 1) return;
  context_.workers.Run<bool>(
      WorkerOf(region->place()),
      [link, region]() -> Result<bool> {
        ONECOPY_ASSIGN_OR_RETURN(const auto registrations, link->Register(region));
        (void)registrations;
        return true;
      },
      [this, key](const Result<bool>& outcome) { Conclude(key, outcome.status()); });
}

void Registrations::Conclude(const Key& key, const Status& status) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  std::vector<StatusReply> waiting = std::exchange(found->second.waiting, {});
  found->second.done = status.ok();
  if (!status.ok()) entries_.erase(found);
  for (StatusReply& reply : waiting) reply(status);
}

}  // namespace onecopy::engine
