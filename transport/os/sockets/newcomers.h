// Connections that have not identified themselves yet. They cost descriptors, which are bounded. If
// there are too many, the oldest are closed, and not the next one: so a caller that keeps many open
// cannot keep others out. Honest connections identify themselves within moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "transport/core/base/executor.h"

namespace onecopy::os {

// One thread.
class Newcomers {
 public:
  using Id = uint64_t;  // never 0; grows with each

  // `who` names the caller, as an address or a user. `put_out` ends the connection if PutOut
  // chooses it; it is forgotten then.
  Id Enter(const std::string& who, Task put_out);
  // It has shown itself, or is gone. One that is not known, or 0, is not an error.
  void Leave(Id id);

  size_t size() const { return entries_.size(); }
  size_t of(const std::string& who) const;

  // Ends the oldest one of `who`; without an argument, of the caller that has most. False if there
  // is none.
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
