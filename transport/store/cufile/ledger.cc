#include "transport/store/cufile/ledger.h"

#include <algorithm>

namespace onecopy::cufile {

std::optional<Ledger::Window> Ledger::Open(const std::string& gpu) {
  // First the counters: what ends between them and the account is then under way in the account, or
  // counted in excess, never missed.
  const std::optional<shim::CuFileCounts> before = counts_->Read(gpu);
  if (!before) return std::nullopt;
  const MutexLock lock(mutex_);
  const Account& account = accounts_[gpu];
  return Window{*before, account.ended, account.under_way};
}

void Ledger::Begin(const std::string& gpu, uint64_t operations) {
  const MutexLock lock(mutex_);
  accounts_[gpu].under_way += operations;
}

void Ledger::End(const std::string& gpu, uint64_t operations, uint64_t moved) {
  const MutexLock lock(mutex_);
  Account& account = accounts_[gpu];
  account.under_way -= operations;
  account.ended += moved;
}

Ledger::Seen Ledger::Look(const std::string& gpu, const Window& window) {
  uint64_t ended = 0;
  {
    const MutexLock lock(mutex_);
    ended = accounts_[gpu].ended - window.ended;
  }
  // Those that were under way may have been counted before.
  ended -= std::min(ended, window.under_way);
  const std::optional<shim::CuFileCounts> now = counts_->Read(gpu);
  if (!now) return {.why_not = "there is no counter of libcufile's operations with GPU " + gpu};
  Seen seen;
  seen.why_not = WhyNotDirect(window.before, *now, ended);
  seen.direct = seen.why_not.empty();
  seen.through_gpu = now->posix == window.before.posix && now->bounced > window.before.bounced;
  seen.counted = now->direct - window.before.direct;
  return seen;
}

Ledger::Company Ledger::Join(const std::string& gpu) {
  const MutexLock lock(mutex_);
  Company& company = accounts_[gpu].company;
  const Company found = company;
  ++company.present;
  ++company.ever;
  return found;
}

void Ledger::Leave(const std::string& gpu) {
  const MutexLock lock(mutex_);
  --accounts_[gpu].company.present;
}

uint64_t Ledger::Others(const std::string& gpu, const Company& joined) {
  const MutexLock lock(mutex_);
  return joined.present + accounts_[gpu].company.ever - joined.ever - 1;
}

}  // namespace onecopy::cufile
