#include "daemon/engine/registry/kept.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::seconds kRenewPause{1};
constexpr char kKeeping[] = "keeping";  // the worker's queue
constexpr char kEndsWithDaemon[] = "a buffer will not survive a restart of the daemon";

}  // namespace

HeldRef Kept::Begin(const Owner& owner) {
  if (!on()) return nullptr;
  auto held = std::make_shared<Held>();
  // The kernel may give the numbers of those namespaces to others while no daemon holds them.
  if (owner.uid.foreign() && context_.IsSelf(owner.node)) {
    held->form.why =
        "its owner is a user of a container, whom the next daemon could not tell from "
        "users of later containers";
  } else {
    held->form.number = next_++;
  }
  return held;
}

void Kept::Hold(Region& region, const HeldRef& held, const std::string& name) const {
  if (held == nullptr) return;
  if (held->form.number != 0) held->form = HoldNow(region, held);
  if (held->form.why.empty()) return;
  log::Warning(kEndsWithDaemon, {{"buffer", name}, {"why", held->form.why}});
}

HeldForm Kept::HoldNow(Region& region, const HeldRef& held) const {
  HeldForm form = held->form;
  form.why.clear();
  Result<ImportRequest> shared = region.Share();
  if (!shared.ok()) {
    form.why = shared.status().ToString();
    return form;
  }
  const os::UniqueFd fd(shared->fd);
  form.form = shared->form;
  form.offset = shared->offset;
  form.allocation_bytes = shared->allocation_bytes;
  if (!fd) {
    form.number = 0;
    form.why = "memory of the form " + shared->form + " ends with the process that allocated it";
    return form;
  }
  const Status status = keeper_->Hold(form.number, fd.get());
  if (!status.ok()) form.why = status.ToString();
  Adopt(region, held);
  return form;
}

void Kept::Adopt(Region& region, const HeldRef& held) const {
  if (std::exchange(held->hooked, true)) return;
  // On the thread that gives the memory back, so that what is allocated there next finds it free.
  region.OnRelease([keeper = keeper_, held, number = held->form.number] {
    if (held->over) keeper->Release(number);
  });
}

void Kept::Put(const BufferRecord& record) {
  if (on()) PutText(KeyOf(record.id), ToText(record), "buffer " + record.name);
}

void Kept::Put(const GrantRecord& record) {
  if (on()) PutText(KeyOf(record.id), ToText(record), record.id.str());
}

void Kept::Put(const TicketRecord& record) {
  if (on()) PutText(KeyOf(record.transfer), ToText(record), "transfer " + record.transfer.str());
}

void Kept::Put(const ArrivingRecord& record) {
  const std::string& id = record.request.id.str();
  if (on()) PutText(kArrivingKeys + id, ToText(record), "transfer " + id);
}

void Kept::PutArrived(const TransferId& id, uint64_t bytes) {
  if (on()) PutText(kArrivedKeys + id.str(), std::to_string(bytes), "transfer " + id.str());
}

void Kept::EraseArriving(const TransferId& id) {
  Erase(kArrivingKeys + id.str());
  Erase(kArrivedKeys + id.str());
}

void Kept::PutText(const std::string& key, const std::string& text, const std::string& what) {
  const Status put = keeper_->Put(key, text);
  if (put.ok()) return;
  keeper_->Erase(key);
  log::Warning("a record will not survive a restart of the daemon",
               {{"of", what}, {"why", put.ToString()}});
}

void Kept::Erase(const std::string& key) {
  if (on()) keeper_->Erase(key);
}

KeeperApi::Left Kept::TakeLeft() { return on() ? keeper_->TakeLeft() : KeeperApi::Left{}; }

void Kept::Drop(const std::string& key, uint64_t number) {
  if (!on()) return;
  if (!key.empty()) keeper_->Erase(key);
  if (number != 0) keeper_->Release(number);
}

void Kept::Watch(std::function<std::vector<Holding>()> all, std::function<void(BufferId)> done) {
  if (!on()) return;
  all_ = std::move(all);
  done_ = std::move(done);
  watched_ = keeper_->lost_fd();
  const auto lost = [this](uint32_t) {
    context_.loop.Unwatch(std::exchange(watched_, -1));
    log::Error(
        "what holds this node's memory has ended: no buffer survives a restart until it is "
        "held again",
        {});
    Renew();
  };
  if (watched_ >= 0 && context_.loop.Watch(watched_, EPOLLRDHUP, lost).ok()) return;
  watched_ = -1;
  timer_ = context_.loop.RunAfter(kRenewPause, [this] { Renew(); });
}

void Kept::Unwatch() {
  if (watched_ >= 0) context_.loop.Unwatch(std::exchange(watched_, -1));
  context_.loop.CancelTimer(std::exchange(timer_, 0));
}

void Kept::Renew() {
  timer_ = 0;
  if (context_.stopping) return;
  context_.workers.Run<bool>(
      kKeeping,
      [keeper = keeper_]() -> Result<bool> {
        ONECOPY_RETURN_IF_ERROR(keeper->Renew());
        return true;
      },
      [this](const Result<bool>& renewed) {
        if (context_.stopping) return;
        if (renewed.ok()) return HoldAgain();
        timer_ = context_.loop.RunAfter(kRenewPause, [this] { Renew(); });
      });
}

void Kept::HoldAgain() {
  using Forms = std::vector<HeldForm>;
  std::vector<Holding> all = all_();
  auto work = [this, all]() -> Result<Forms> {
    Forms forms;
    for (const Holding& one : all) forms.push_back(HoldNow(*one.region, one.held));
    return forms;
  };
  context_.workers.Run<Forms>(
      kKeeping, std::move(work), [this, all = std::move(all)](const Result<Forms>& forms) {
        if (!forms.ok() || context_.stopping) return;
        for (size_t i = 0; i < all.size(); ++i) {
          all[i].held->form = (*forms)[i];
          if (!(*forms)[i].why.empty()) {
            log::Warning(kEndsWithDaemon, {{"buffer", all[i].name}, {"why", (*forms)[i].why}});
          }
          done_(all[i].id);
        }
        Watch(std::move(all_), std::move(done_));
      });
}

}  // namespace onecopy::engine
