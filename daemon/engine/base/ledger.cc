#include "daemon/engine/base/ledger.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <vector>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/base/mutex.h"

namespace onecopy::engine {
namespace {

constexpr uint64_t kKiB = 1024;
// The last part of a total, and what a payer has at most that may have of it.
constexpr uint64_t kForLittle = 4;
constexpr uint64_t kLittle = 16;
// What is worth to be told of when it has been given back, by many, or by large ones while others
// come.
constexpr uint64_t kMuch = uint64_t{32} << 20;
constexpr uint64_t kLarge = 64 * kKiB;

struct Rule {
  std::string_view things;
  std::string_view key = {};        // of [limits]; empty: its bytes alone are bounded
  Limit Limits::*number = nullptr;  // likewise
  uint64_t one = 0;                 // bytes that each takes, whatever it brings
  // Bytes beside the share: these parts of a share and of the total; 0: they are of the share.
  uint64_t each_part = 0;
  uint64_t total_part = 0;
};

constexpr std::array<Rule, kChargedKinds> kRules = {{
    {"sessions", "sessions", &Limits::sessions, 4 * kKiB},
    {"descriptors", "descriptors", &Limits::descriptors, 256},
    {"connections", "sessions", &Limits::sessions, 32 * kKiB},
    {"namespaces", "namespaces", &Limits::namespaces},
    {"connections to api_listen", "connections", &Limits::connections, 32 * kKiB},
    {"connections to the peers' port", "connections", &Limits::connections, 32 * kKiB},
    {"handshakes", {}, nullptr, 160 * kKiB, 16, 8},
    {"requests", "requests", &Limits::requests, 8 * kKiB},
    {"requests that end something", "requests", &Limits::requests, 8 * kKiB, 8, 8},
    {"buffers", "buffers", &Limits::buffers, 2 * kKiB},
    {"bytes of buffers", {}, nullptr, 0, 0, 0},
    {"grants", "grants", &Limits::grants, kKiB},
    {"promised transfers", {}, nullptr, kKiB},
    {"transfers", "transfers", &Limits::transfers, 8 * kKiB},
    {"ended transfers and requests", {}, nullptr, 0, 16, 4},
    {"files", "files", &Limits::files, 2 * kKiB},
    {"files by name", "files", &Limits::files_of_one},
    {"rings", "rings", &Limits::rings, kChargedOfARing},
    {"routes", "routes", &Limits::routes, kChargedOfARoute},
    {"staged routes", {}, nullptr, 0, 4, 4},
    {"openings", "openings", &Limits::openings, 4 * kKiB},
    {"slabs", "slabs", &Limits::slabs, 4 * kKiB},
    {"mappings", "mappings", &Limits::mappings, 2 * kKiB},
    {"arrivals", "arrivals", &Limits::arrivals, kKiB},
    {"watches", "watches", &Limits::watches, 2 * kKiB},
    {"request ids", "request_ids", &Limits::request_ids, 24},
}};

const Rule& RuleOf(Charged kind) { return kRules[static_cast<size_t>(kind)]; }

// What all have, and those of them that are not administrators.
struct Sum {
  uint64_t all = 0;
  uint64_t others = 0;

  void Add(uint64_t amount, bool administrator) {
    all += amount;
    if (!administrator) others += amount;
  }
  void Subtract(uint64_t amount, bool administrator) {
    all -= amount;
    if (!administrator) others -= amount;
  }
};

enum class Verdict { kFits, kEachFull, kFull, kForAdministrators, kForLittle };

// Whether a payer that has `has` may have `more`.
Verdict Judge(const Limit& limit, uint64_t reserved_percent, uint64_t has, const Sum& sum,
              uint64_t more, bool administrator) {
  const auto beyond = [more](uint64_t taken, uint64_t most) {
    return taken > most || more > most - taken;
  };
  if (!administrator && beyond(has, limit.each)) return Verdict::kEachFull;
  if (beyond(sum.all, limit.total)) return Verdict::kFull;
  if (administrator) return Verdict::kFits;
  const uint64_t reserved = (limit.total * reserved_percent + 99) / 100;
  const uint64_t room = limit.total - std::min<uint64_t>(limit.total, reserved);
  if (beyond(sum.others, room)) return Verdict::kForAdministrators;
  const uint64_t little = room / kLittle;
  if (little > 0 && beyond(has, little) && beyond(sum.others, room - room / kForLittle)) {
    return Verdict::kForLittle;
  }
  return Verdict::kFits;
}

std::string Beside(Verdict verdict) {
  if (verdict == Verdict::kForAdministrators)
    return ", apart from what is reserved for administrators";
  if (verdict == Verdict::kForLittle) return ", apart from what is reserved for users with little";
  return {};
}

}  // namespace

struct Ledger::Account {
  struct Of {
    size_t count = 0;
    uint64_t bytes = 0;
  };
  std::map<Owner, Account>::iterator place;
  std::array<Of, kChargedKinds> of{};
  uint64_t shared = 0;  // bytes of the kinds that are of the share
  size_t counts = 0;    // of all kinds
};

struct Ledger::Books {
  Books(std::string node, const Limits& limits) : node(std::move(node)), limits(limits) {}

  bool IsShared(Charged kind) const {
    return RuleOf(kind).total_part == 0 && kind != Charged::kPeerBuffers;
  }
  Limit ByteLimit(Charged kind) const {
    const Rule& rule = RuleOf(kind);
    if (rule.total_part == 0) return limits.memory;
    return {limits.memory.each / rule.each_part, limits.memory.total / rule.total_part};
  }

  Account& Ensure(const Owner& payer) ONECOPY_REQUIRES(mutex) {
    const auto [at, made] = accounts.try_emplace(payer);
    if (made) at->second.place = at;
    return at->second;
  }

  // Never refused: the caller has asked, or has it already.
  void Add(Account& account, Charged kind, bool administrator, size_t count, uint64_t bytes)
      ONECOPY_REQUIRES(mutex) {
    const size_t index = static_cast<size_t>(kind);
    account.of[index].count += count;
    account.of[index].bytes += bytes;
    account.counts += count;
    counts[index].Add(count, administrator);
    kind_bytes[index].Add(bytes, administrator);
    if (kind != Charged::kPeerBuffers) memory += bytes;
    peak = std::max(peak, memory);
    if (!IsShared(kind)) return;
    account.shared += bytes;
    shared.Add(bytes, administrator);
  }

  void Subtract(Account& account, Charged kind, bool administrator, size_t count, uint64_t bytes)
      ONECOPY_REQUIRES(mutex) {
    const size_t index = static_cast<size_t>(kind);
    account.of[index].count -= count;
    account.of[index].bytes -= bytes;
    account.counts -= count;
    counts[index].Subtract(count, administrator);
    kind_bytes[index].Subtract(bytes, administrator);
    if (kind != Charged::kPeerBuffers) memory -= bytes;
    if (bytes >= kLarge) given_back += bytes;
    if (given_back >= kMuch || peak - memory >= kMuch) {
      given_back = 0;
      peak = memory;
      if (fell) fell();
    }
    if (IsShared(kind)) {
      account.shared -= bytes;
      shared.Subtract(bytes, administrator);
    }
    if (account.counts == 0) accounts.erase(account.place);
  }

  Status Check(const Owner& payer, Charged kind, bool administrator, uint64_t bytes)
      ONECOPY_REQUIRES(mutex) {
    const Rule& rule = RuleOf(kind);
    const size_t index = static_cast<size_t>(kind);
    const auto found = accounts.find(payer);
    const Account* const account = found == accounts.end() ? nullptr : &found->second;
    if (rule.number != nullptr) {
      const Limit& limit = limits.*rule.number;
      const size_t has = account == nullptr ? 0 : account->of[index].count;
      const Verdict verdict =
          Judge(limit, limits.reserved_percent, has, counts[index], 1, administrator);
      if (verdict != Verdict::kFits) return NumberFull(payer, rule, limit, verdict, has, index);
    }
    if (kind == Charged::kPeerBuffers) return OkStatus();
    const Limit limit = ByteLimit(kind);
    const bool of_share = IsShared(kind);
    const uint64_t has = account == nullptr ? 0
                         : of_share         ? account->shared
                                            : account->of[index].bytes;
    const Verdict verdict =
        Judge(limit, limits.reserved_percent, has, of_share ? shared : kind_bytes[index],
              rule.one + bytes, administrator);
    if (verdict == Verdict::kFits) return OkStatus();
    return MemoryFull(payer, account, kind, verdict, rule.one + bytes);
  }

  Status NumberFull(const Owner& payer, const Rule& rule, const Limit& limit, Verdict verdict,
                    size_t has, size_t index) const ONECOPY_REQUIRES(mutex) {
    const std::string things(rule.things);
    const std::string key(rule.key);
    if (verdict == Verdict::kEachFull) {
      return {Code::kResourceExhausted, reasons::kQuota,
              payer.ToString() + " has " + std::to_string(has) + " " + things + " on node " + node +
                  ", the limit of one user",
              "free some, or raise [limits] " + key + "_per_user, which is " +
                  std::to_string(limit.each)};
    }
    return {
        Code::kResourceExhausted, reasons::kQuota,
        "node " + node + " has " + std::to_string(counts[index].all) + " " + things +
            ", its limit" + Beside(verdict),
        "try again later, or raise [limits] " + key + ", which is " + std::to_string(limit.total)};
  }

  Status MemoryFull(const Owner& payer, const Account* account, Charged kind, Verdict verdict,
                    uint64_t wanted) const ONECOPY_REQUIRES(mutex) {
    const bool each = verdict == Verdict::kEachFull;
    const std::string key = each ? "memory_per_user" : "memory";
    const std::string remedy = "raise [limits] " + key + ", which is " +
                               FormatBytes(each ? limits.memory.each : limits.memory.total);
    if (!each) {
      return {Code::kResourceExhausted, reasons::kQuota,
              "the users of node " + node + " together use as much of its memory as they may" +
                  Beside(verdict),
              "try again later, or " + remedy};
    }
    const std::string what =
        payer.ToString() + " uses " + Listed(account, kind) + "of node " + node + "'s memory";
    return {Code::kResourceExhausted, reasons::kQuota,
            what + ", and one user may have " + FormatBytes(ByteLimit(kind).each) +
                " at a time: no room for " + FormatBytes(wanted) + " more",
            "end some of that work, or " + remedy};
  }

  // "12 MiB (for transfers 11 MiB, requests 1 MiB) "
  std::string Listed(const Account* account, Charged kind) const ONECOPY_REQUIRES(mutex) {
    if (account == nullptr) return "nothing ";
    std::vector<std::pair<uint64_t, std::string_view>> of;
    uint64_t sum = 0;
    for (size_t i = 0; i < kChargedKinds; ++i) {
      const bool counts =
          IsShared(kind) ? IsShared(static_cast<Charged>(i)) : i == static_cast<size_t>(kind);
      if (!counts || account->of[i].bytes == 0) continue;
      of.emplace_back(account->of[i].bytes, kRules[i].things);
      sum += account->of[i].bytes;
    }
    if (sum == 0) return "nothing ";
    std::sort(of.rbegin(), of.rend());
    std::string text = FormatBytes(sum) + " (";
    for (size_t i = 0; i < of.size(); ++i) {
      text += (i == 0 ? "" : ", ") + std::string(of[i].second) + " " + FormatBytes(of[i].first);
    }
    return text + ") ";
  }

  const std::string node;
  const Limits limits;
  Mutex mutex;
  std::map<Owner, Account> accounts ONECOPY_GUARDED_BY(mutex);  // of payers
  std::array<Sum, kChargedKinds> counts ONECOPY_GUARDED_BY(mutex){};
  std::array<Sum, kChargedKinds> kind_bytes ONECOPY_GUARDED_BY(mutex){};
  std::array<uint64_t, kChargedKinds> refused ONECOPY_GUARDED_BY(mutex){};  // ever
  Sum shared ONECOPY_GUARDED_BY(mutex);               // bytes of the kinds that are of the share
  uint64_t memory ONECOPY_GUARDED_BY(mutex) = 0;      // bytes of everything
  uint64_t given_back ONECOPY_GUARDED_BY(mutex) = 0;  // by large ones, since `fell` ran last
  uint64_t peak ONECOPY_GUARDED_BY(mutex) = 0;        // the most of it since `fell` ran last
  std::function<void()> fell ONECOPY_GUARDED_BY(mutex);
};

Ledger::Ledger(std::string node, const Limits& limits)
    : books_(std::make_shared<Books>(std::move(node), limits)) {}

Ledger::Charge& Ledger::Charge::operator=(Charge&& other) noexcept {
  if (this == &other) return *this;
  GiveBack();
  books_ = std::move(other.books_);
  account_ = other.account_;
  kind_ = other.kind_;
  administrator_ = other.administrator_;
  count_ = std::exchange(other.count_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Ledger::Charge::Absorb(Charge&& other) {
  if (books_ == nullptr) {
    *this = std::move(other);
    return;
  }
  count_ += std::exchange(other.count_, 0);
  bytes_ += std::exchange(other.bytes_, 0);
  other.books_.reset();
}

void Ledger::Charge::SetBytes(uint64_t bytes) {
  if (books_ == nullptr) return;
  const MutexLock lock(books_->mutex);
  if (bytes > bytes_) {
    books_->Add(*account_, kind_, administrator_, 0, bytes - bytes_);
  } else {
    books_->Subtract(*account_, kind_, administrator_, 0, bytes_ - bytes);
  }
  bytes_ = bytes;
}

void Ledger::Charge::GiveBack(size_t count) {
  if (books_ == nullptr) return;
  count = std::min(count, count_);
  count_ -= count;
  uint64_t bytes = count * RuleOf(kind_).one;
  if (count_ == 0) bytes += std::exchange(bytes_, 0);
  {
    const MutexLock lock(books_->mutex);
    books_->Subtract(*account_, kind_, administrator_, count, bytes);
  }
  if (count_ == 0) books_.reset();
}

Status Ledger::TakeInto(Charge& charge, Charged kind, const Owner& owner, bool administrator,
                        uint64_t bytes) const {
  const Owner payer = PayerOf(owner);
  const MutexLock lock(books_->mutex);
  if (Status full = books_->Check(payer, kind, administrator, bytes); !full.ok()) {
    ++books_->refused[static_cast<size_t>(kind)];
    return full;
  }
  Account& account = books_->Ensure(payer);
  books_->Add(account, kind, administrator, 1, RuleOf(kind).one + bytes);
  charge.books_ = books_;
  charge.account_ = &account;
  charge.kind_ = kind;
  charge.administrator_ = administrator;
  ++charge.count_;
  charge.bytes_ += bytes;
  return OkStatus();
}

Result<Ledger::Charge> Ledger::Take(Charged kind, const Owner& owner, bool administrator,
                                    uint64_t bytes) const {
  Charge charge;
  ONECOPY_RETURN_IF_ERROR(TakeInto(charge, kind, owner, administrator, bytes));
  return charge;
}

Result<std::shared_ptr<Ledger::Charge>> Ledger::Share(Charged kind, const Owner& owner,
                                                      bool administrator, uint64_t bytes) const {
  ONECOPY_ASSIGN_OR_RETURN(Charge charge, Take(kind, owner, administrator, bytes));
  return std::make_shared<Charge>(std::move(charge));
}

size_t Ledger::count(Charged kind, const Owner& owner) const {
  const MutexLock lock(books_->mutex);
  const auto found = books_->accounts.find(PayerOf(owner));
  return found == books_->accounts.end() ? 0 : found->second.of[static_cast<size_t>(kind)].count;
}

size_t Ledger::count(Charged kind) const {
  const MutexLock lock(books_->mutex);
  return books_->counts[static_cast<size_t>(kind)].all;
}

uint64_t Ledger::bytes(Charged kind, const Owner& owner) const {
  const MutexLock lock(books_->mutex);
  const auto found = books_->accounts.find(PayerOf(owner));
  return found == books_->accounts.end() ? 0 : found->second.of[static_cast<size_t>(kind)].bytes;
}

uint64_t Ledger::SharedBytes(const Owner& owner) const {
  const MutexLock lock(books_->mutex);
  const auto found = books_->accounts.find(PayerOf(owner));
  return found == books_->accounts.end() ? 0 : found->second.shared;
}

uint64_t Ledger::bytes(Charged kind) const {
  const MutexLock lock(books_->mutex);
  return books_->kind_bytes[static_cast<size_t>(kind)].all;
}

Limit Ledger::ByteLimit(Charged kind) const { return books_->ByteLimit(kind); }

uint64_t Ledger::bytes() const {
  const MutexLock lock(books_->mutex);
  return books_->memory;
}

std::vector<AccountInfo> Ledger::Describe(size_t most) const {
  std::vector<std::pair<uint64_t, AccountInfo>> all;
  {
    const MutexLock lock(books_->mutex);
    for (const auto& [payer, account] : books_->accounts) {
      AccountInfo info{payer.ToString(), {}};
      uint64_t bytes = 0;
      for (size_t i = 0; i < kChargedKinds; ++i) {
        const Account::Of& of = account.of[i];
        if (of.count == 0) continue;
        info.charges.push_back({std::string(kRules[i].things), of.count, of.bytes});
        bytes += of.bytes;
      }
      all.emplace_back(bytes, std::move(info));
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<AccountInfo> told;
  for (size_t i = 0; i < std::min(most, all.size()); ++i) told.push_back(std::move(all[i].second));
  return told;
}

std::vector<QuotaFigures> Ledger::Quotas() const {
  std::map<std::string, QuotaFigures> by_key;
  uint64_t of_bytes_alone = 0;
  const MutexLock lock(books_->mutex);
  for (size_t i = 0; i < kChargedKinds; ++i) {
    const Rule& rule = kRules[i];
    if (rule.number == nullptr) {
      of_bytes_alone += books_->refused[i];
      continue;
    }
    const uint64_t limit = (books_->limits.*rule.number).total;
    // Several kinds may have one limit, each for itself: the fullest is told of.
    QuotaFigures& quota = by_key[std::string(rule.key)];
    quota.used = std::max<uint64_t>(quota.used, books_->counts[i].all);
    quota.limit = limit;
    quota.refused += books_->refused[i];
  }
  std::vector<QuotaFigures> quotas;
  quotas.reserve(by_key.size() + 1);
  for (auto& [key, quota] : by_key) {
    quota.what = key;
    quotas.push_back(std::move(quota));
  }
  quotas.push_back({"memory", books_->memory, books_->limits.memory.total, of_bytes_alone});
  return quotas;
}

void Ledger::OnFall(std::function<void()> fell) const {
  const MutexLock lock(books_->mutex);
  books_->fell.swap(fell);
}

}  // namespace onecopy::engine
