// Connections that have not shown yet what they are for. They cost descriptors, which are bounded;
// so that nobody who keeps many of them keeps others out, it is the oldest that go where there are
// too many, and not the next that comes: one that means well shows itself within moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "transport/core/executor.h"

namespace onecopy::os {

// One thread.
class Newcomers {
 public:
  using Id = uint64_t;  // never 0; grows with each

  // `who` names those who are told apart, as an address or a user. `put_out` ends the connection,
  // where PutOut chooses it; it is forgotten then.
  Id Enter(const std::string& who, Task put_out);
  // It has shown itself, or is gone. One that is not known, or 0, is not an error.
  void Leave(Id id);

  size_t size() const { return entries_.size(); }
  size_t of(const std::string& who) const;

  // Ends the oldest one of `who`, or, without, of whoever has the most. False where there is none.
  bool PutOut(const std::string& who);
  bool PutOut();

 private:
  struct Entry {
    std::string who;
    Task put_out;
  };
  void PutOutOldest(const std::set<Id>& of_one);

  std::unordered_map<Id, Entry> entries_;
  std::map<std::string, std::set<Id>> by_who_;  // the oldest first
  Id next_ = 1;
};

// Who is counted as one where connections come from this IP address: an IPv6 address counts with
// its network of 64 bits, of which one host may use any. Other text stays as it is.
std::string Counted(const std::string& address);

}  // namespace onecopy::os
