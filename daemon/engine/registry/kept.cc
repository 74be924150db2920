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
// Of users that a certificate names, which are the same for ever.
constexpr char kUsersByCertificate[] = "cert";
constexpr char kEndsWithDaemon[] = "a buffer will not survive a restart of the daemon";

}  // namespace

bool Kept::Tells(const Owner& owner) const {
  return !owner.uid.foreign() || !context_.IsSelf(owner.node) ||
         owner.uid.namespaces == kUsersByCertificate;
}

HeldRef Kept::Begin(const Owner& owner) {
  if (!on()) return nullptr;
  auto held = std::make_shared<Held>();
  if (Tells(owner)) {
    held->form.number = next_++;
  } else {
    held->form.why =
        "its owner is a user of a container, whom the next daemon could not tell from "
        "users of later containers";
  }
  return held;
}

void Kept::Hold(Region& region, const HeldRef& held, const std::string& name) const {
  if (held == nullptr) return;
  if (held->form.number != 0) held->form = HoldNow(region, held, held->form);
  if (held->form.why.empty()) return;
  log::Warning(kEndsWithDaemon, {{"buffer", name}, {"why", held->form.why}});
}

HeldForm Kept::HoldNow(Region& region, const HeldRef& held, HeldForm form) const {
  form.why.clear();
  form.passing = false;
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
  if (!status.ok()) {
    form.why = status.ToString();
    form.passing = status.code() != Code::kResourceExhausted;
  }
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
  if (!on()) return;
  const Weight weight = record.view_of ? Weight::kMinor : Weight::kMajor;
  PutText(KeyOf(record.id), ToText(record), "buffer " + record.name, weight);
}

void Kept::Put(const GrantRecord& record) {
  if (!on() || !Tells(record.to)) return;
  PutText(KeyOf(record.id), ToText(record), record.id.str(), Weight::kMajor);
}

uint64_t Kept::Put(const TicketRecord& record) {
  if (!on() || !Tells(record.owner)) return 0;
  const uint64_t number = next_ticket_++;
  const std::string what = "transfer " + record.transfer.str();
  return PutText(KeyOfTicket(number), ToText(record), what, Weight::kMinor) ? number : 0;
}

bool Kept::Put(const ArrivingRecord& record) {
  const std::string& id = record.request.id.str();
  return on() && PutText(kArrivingKeys + id, ToText(record), "transfer " + id, Weight::kMinor);
}

void Kept::PutArrived(const TransferId& id, uint64_t bytes) {
  if (!on()) return;
  PutText(kArrivedKeys + id.str(), std::to_string(bytes), "transfer " + id.str(), Weight::kMinor);
}

// The count first: it must never be taken for that of a later transfer of the same name.
void Kept::EraseArriving(const TransferId& id) {
  if (!on()) return;
  Erase(kArrivedKeys + id.str());
  Erase(kArrivingKeys + id.str());
}

bool Kept::PutText(const std::string& key, const std::string& text, const std::string& what,
                   Weight weight) {
  constexpr std::chrono::minutes kBetweenWarnings{1};
  const Status put = keeper_->Put(key, text, weight == Weight::kMinor);
  if (put.ok()) return true;
  const os::Clock::time_point now = os::Clock::now();
  if (told_full_ != os::Clock::time_point() && now - told_full_ < kBetweenWarnings) return false;
  told_full_ = now;
  log::Warning("a record will not survive a restart of the daemon",
               {{"of", what}, {"why", put.ToString()}});
  return false;
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
        "onecopy-holder has ended: buffers do not survive a restart until another one has them",
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
        if (renewed.ok()) {
          told_.clear();
          return HoldAgain(Which::kAll);
        }
        if (const std::string why = renewed.status().ToString(); why != told_) {
          log::Warning("no holder can be reached yet", {{"why", why}});
          told_ = why;
        }
        timer_ = context_.loop.RunAfter(kRenewPause, [this] { Renew(); });
      });
}

void Kept::HoldAgain(Which which) {
  if (std::exchange(holding_, true)) {
    again_ = true;
    again_all_ = again_all_ || which == Which::kAll;
    return;
  }
  using Forms = std::vector<HeldForm>;
  std::vector<Holding> these = all_();
  if (which == Which::kUnheld) {
    std::erase_if(these, [](const Holding& one) { return !one.form.passing; });
  }
  auto held_on = which == Which::kAll ? held_on_ : decltype(held_on_){};
  auto work = [this, these, held_on = std::move(held_on)]() -> Result<Forms> {
    for (const auto& [number, fd] : held_on) (void)keeper_->Hold(number, fd->get());
    Forms forms;
    for (const Holding& one : these) forms.push_back(HoldNow(*one.region, one.held, one.form));
    return forms;
  };
  context_.workers.Run<Forms>(
      kKeeping, std::move(work),
      [this, which, these = std::move(these)](const Result<Forms>& forms) {
        holding_ = false;
        if (context_.stopping) return;
        for (size_t i = 0; forms.ok() && i < these.size(); ++i) {
          const HeldForm& form = (*forms)[i];
          if (form == these[i].form) continue;
          these[i].held->form = form;
          if (!form.why.empty()) {
            log::Warning(kEndsWithDaemon, {{"buffer", these[i].name}, {"why", form.why}});
          }
          done_(these[i].id);
        }
        if (which == Which::kAll && watched_ < 0) Watch(all_, done_);
        const bool all = std::exchange(again_all_, false);
        // Where the holder has been lost meanwhile, Renew has all held again.
        if (std::exchange(again_, false) && (all || !lost())) {
          HoldAgain(all ? Which::kAll : Which::kUnheld);
        }
      });
}

void Kept::HoldLater() {
  if (!on()) return;
  if (holding_) {
    again_ = true;
  } else if (!lost()) {
    HoldAgain(Which::kUnheld);
  }
}

void Kept::HoldOn(uint64_t number, os::UniqueFd fd) {
  held_on_.emplace_back(number, std::make_shared<const os::UniqueFd>(std::move(fd)));
}

}  // namespace onecopy::engine
