#include "daemon/metrics/scrapes.h"

#include <boost/asio/post.hpp>
#include <utility>

#include "transport/core/base/mutex.h"

namespace onecopy::metrics {

// Where the engine's thread leaves its answer.
struct Scrapes::Inbox {
  Mutex mutex;
  Scrapes* owner ONECOPY_GUARDED_BY(mutex) = nullptr;  // null: it has gone
};

Scrapes::Scrapes(boost::asio::io_context& io, Ask ask, std::chrono::milliseconds patience)
    : io_(io), ask_(std::move(ask)), patience_(patience), inbox_(std::make_shared<Inbox>()) {
  const MutexLock lock(inbox_->mutex);
  inbox_->owner = this;
}

Scrapes::~Scrapes() {
  const MutexLock lock(inbox_->mutex);
  inbox_->owner = nullptr;
}

void Scrapes::Get(Reply reply) {
  const uint64_t number = next_++;
  Waiting& waiting =
      waiting_.emplace(number, Waiting{std::move(reply), boost::asio::steady_timer(io_, patience_)})
          .first->second;
  // By its number: it may be answered while the timer's end is on its way here.
  waiting.timer.async_wait([this, number](const boost::system::error_code& cancelled) {
    if (cancelled) return;  // `this` may have gone
    auto late = waiting_.extract(number);
    if (!late.empty()) late.mapped().reply(nullptr);
  });
  if (std::exchange(asked_, true)) return;
  ask_([inbox = inbox_](engine::Figures figures) {
    const MutexLock lock(inbox->mutex);
    if (inbox->owner == nullptr) return;
    boost::asio::post(inbox->owner->io_, [owner = inbox->owner, figures = std::move(figures)] {
      owner->Answer(figures);
    });
  });
}

void Scrapes::Answer(const engine::Figures& figures) {
  asked_ = false;
  for (auto& [number, one] : std::exchange(waiting_, {})) one.reply(&figures);
}

}  // namespace onecopy::metrics
