// What is remembered of each payer's past, within a bound of its own for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "daemon/engine/base/ledger.h"

namespace onecopy::engine {

// Engine thread. Each payer remembers at most `each` of one history, and is charged for them in
// bytes (Charged::kHistory). A new entry without room replaces its payer's oldest. If all payers
// together have no room left, the payer that remembers most forgets first.
template <typename Id>
class History {
 public:
  History(Ledger ledger, size_t each) : ledger_(std::move(ledger)), each_(each) {}

  struct Filed {
    std::vector<Id> forgotten;
    // Of what was filed, for as long as it is remembered: it may turn out to take more. Null: it
    // was forgotten at once.
    std::shared_ptr<Ledger::Charge> charge;
  };

  // Files the newest, which takes so much memory. What is to be forgotten for it may be itself.
  Filed Add(const Owner& of, Id id, uint64_t bytes) {
    const Owner payer = PayerOf(of);
    Filed filed;
    if (each_ == 0) {
      filed.forgotten.push_back(std::move(id));
      return filed;
    }
    if (Count(payer) >= each_) ForgetOldest(payer, &filed.forgotten);
    auto charge = ledger_.Share(Charged::kHistory, payer, false, bytes);
    while (!charge.ok()) {
      const bool full = ledger_.bytes(Charged::kHistory, payer) + bytes >
                        ledger_.ByteLimit(Charged::kHistory).each;
      if (by_bytes_.empty() || (full && Count(payer) == 0)) {
        filed.forgotten.push_back(std::move(id));
        return filed;
      }
      ForgetOldest(full ? payer : Owner(by_bytes_.rbegin()->second), &filed.forgotten);
      charge = ledger_.Share(Charged::kHistory, payer, false, bytes);
    }
    filed.charge = *charge;
    Past& past = of_[payer];
    by_bytes_.erase({past.bytes, payer});
    past.bytes += bytes;
    past.entries.push_back({std::move(id), bytes, std::move(*charge)});
    by_bytes_.insert({past.bytes, payer});
    return filed;
  }

 private:
  struct Entry {
    Id id;
    uint64_t bytes = 0;  // when it was filed
    std::shared_ptr<Ledger::Charge> charge;
  };
  struct Past {
    std::deque<Entry> entries;
    uint64_t bytes = 0;
  };

  size_t Count(const Owner& payer) const {
    const auto found = of_.find(payer);
    return found == of_.end() ? 0 : found->second.entries.size();
  }

  void ForgetOldest(const Owner& payer, std::vector<Id>* forgotten) {
    const auto found = of_.find(payer);
    Past& past = found->second;
    by_bytes_.erase({past.bytes, payer});
    past.bytes -= past.entries.front().bytes;
    past.entries.front().charge->GiveBack();
    forgotten->push_back(std::move(past.entries.front().id));
    past.entries.pop_front();
    if (past.entries.empty()) {
      of_.erase(found);
    } else {
      by_bytes_.insert({past.bytes, payer});
    }
  }

  const Ledger ledger_;
  const size_t each_;
  std::map<Owner, Past> of_;  // those who remember anything
  std::set<std::pair<uint64_t, Owner>> by_bytes_;
};

}  // namespace onecopy::engine
