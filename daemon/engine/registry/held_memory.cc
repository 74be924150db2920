#include "daemon/engine/registry/held_memory.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <utility>

#include "daemon/log/log.h"
#include "onecopy/reasons.h"

namespace onecopy::engine {
namespace {

constexpr std::chrono::seconds kRenewPause{1};
constexpr char kHolding[] = "holding";  // the worker's queue
constexpr char kEndsWithDaemon[] = "a buffer will not survive a restart of the daemon";

}  // namespace

HeldRef HeldMemory::Begin(const std::string& why_not) {
  if (!on()) return nullptr;
  auto held = std::make_shared<Held>();
  held->form.why = why_not;
  if (why_not.empty()) held->form.number = next_++;
  return held;
}

void HeldMemory::Hold(Region& region, const HeldRef& held, const std::string& name) const {
  if (held == nullptr) return;
  if (held->form.number != 0) held->form = HoldNow(region, held, held->form);
  if (held->form.why.empty()) return;
  log::Warning(kEndsWithDaemon, {{"buffer", name}, {"why", held->form.why}});
}

HeldForm HeldMemory::HoldNow(Region& region, const HeldRef& held, HeldForm form) const {
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
  const Status status = holder_->Hold(form.number, fd.get());
  if (!status.ok()) {
    form.why = status.ToString();
    form.passing = status.code() != Code::kResourceExhausted;
  }
  Adopt(region, held);
  return form;
}

void HeldMemory::Adopt(Region& region, const HeldRef& held) const {
  if (std::exchange(held->hooked, true)) return;
  // This runs on the thread that frees the memory, so the next allocation there finds it free.
  region.OnRelease([holder = holder_, held, number = held->form.number] {
    if (held->over) holder->Release(number);
  });
}

HolderApi::Left HeldMemory::TakeLeft() { return on() ? holder_->TakeLeft() : HolderApi::Left{}; }

void HeldMemory::Release(uint64_t number) {
  if (on()) holder_->Release(number);
}

void HeldMemory::Watch(std::function<std::vector<Holding>()> all,
                       std::function<void(BufferId)> done) {
  if (!on()) return;
  all_ = std::move(all);
  done_ = std::move(done);
  watched_ = holder_->lost_fd();
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

void HeldMemory::Unwatch() {
  if (watched_ >= 0) context_.loop.Unwatch(std::exchange(watched_, -1));
  context_.loop.CancelTimer(std::exchange(timer_, 0));
}

void HeldMemory::Renew() {
  timer_ = 0;
  if (context_.stopping) return;
  context_.workers.Run<bool>(
      kHolding,
      [holder = holder_]() -> Result<bool> {
        ONECOPY_RETURN_IF_ERROR(holder->Renew());
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

void HeldMemory::HoldAgain(Which which) {
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
    for (const auto& [number, fd] : held_on) (void)holder_->Hold(number, fd->get());
    Forms forms;
    for (const Holding& one : these) forms.push_back(HoldNow(*one.region, one.held, one.form));
    return forms;
  };
  context_.workers.Run<Forms>(
      kHolding, std::move(work),
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
        // If the holder was lost meanwhile, Renew hands over all of it again.
        if (std::exchange(again_, false) && (all || !lost())) {
          HoldAgain(all ? Which::kAll : Which::kUnheld);
        }
      });
}

void HeldMemory::HoldLater() {
  if (!on()) return;
  if (holding_) {
    again_ = true;
  } else if (!lost()) {
    HoldAgain(Which::kUnheld);
  }
}

void HeldMemory::HoldOn(uint64_t number, os::UniqueFd fd) {
  held_on_.emplace_back(number, std::make_shared<const os::UniqueFd>(std::move(fd)));
}

}  // namespace onecopy::engine
