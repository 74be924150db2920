#include "daemon/engine/transfers/reporter.h"

#include <utility>

namespace onecopy::engine {
namespace {

constexpr std::chrono::milliseconds kProgressPause{200};

}  // namespace

void Reporter::AddObserver(const std::string& node) {
  if (!context_.IsSelf(node)) observers_[node];
}

void Reporter::Report(bool progress_only) {
  const os::Clock::time_point now = os::Clock::now();
  if (progress_only && now - last_progress_ < kProgressPause) return;
  last_progress_ = now;
  for (auto& [node, observer] : observers_) {
    observer.news = true;
    if (!observer.telling) Tell(node);
  }
}

void Reporter::Tell(const std::string& node) {
  Observer& observer = observers_.at(node);
  const TransferRecord* record = transfers_.Find(id_);
  Result<PeerApi*> peer = peers_.Find(node);
  if (record == nullptr || !peer.ok()) return;
  observer.news = false;
  observer.telling = true;
  ++context_.reports_under_way;
  (*peer)->Report(context_.node(), record->info,
                  [self = shared_from_this(), node](const Status& told) {
                    Observer& observer = self->observers_.at(node);
                    --self->context_.reports_under_way;
                    observer.telling = false;
                    if (told.ok() && observer.news) self->Tell(node);
                  });
}

}  // namespace onecopy::engine
