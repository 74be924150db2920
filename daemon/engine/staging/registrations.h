// Memory made known to the network devices of a link, once for as long as it lives.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/base/context.h"
#include "daemon/engine/peering/connections.h"

namespace onecopy::engine {

// Engine thread.
class Registrations {
 public:
  Registrations(Context& context, Connections& connections)
      : context_(context), connections_(connections) {}

  // Registers the region with the link, on threads for such calls about such memory; at once where
  // that has happened before. Those who ask meanwhile share one call. Fails, with
  // FAILED_PRECONDITION, with the link's reason why it cannot use this memory in place, which is
  // asked again by the next caller.
  //
  // `client_buffer`: the name of the buffer where the memory is a client's, else empty. Where
  // devices know such memory by a descriptor that the client passed, it is first made sure that the
  // descriptor names the buffer's own memory; one that does not is refused (BAD_HANDLE) for ever. A
  // region without an address is nothing but its descriptor, and is believed.
  //
  // `nics`: the devices that have to know it before the answer comes; empty: all. The others are
  // told afterwards. `payer`: on whose account.
  void Ensure(const std::string& link, const RegionRef& region, const std::string& client_buffer,
              const std::vector<std::string>& nics, const Owner& payer, StatusReply reply);

 private:
  using Key = std::pair<std::string, const Region*>;
  struct Waiting {
    std::vector<std::string> nics;
    Owner payer;
    StatusReply reply;
  };
  struct Entry {
    std::weak_ptr<Region> region;
    bool done = false;
    Status refused;    // counts when done
    bool all = false;  // devices have been told; else these:
    std::set<std::string> nics;
    std::vector<std::string> asking;  // about these just now
    std::vector<Waiting> waiting;

    bool Covers(const std::vector<std::string>& wanted) const;
  };

  void Ask(const Key& key, const RegionRef& region, const std::string& client_buffer,
           const std::vector<std::string>& nics, const Owner& payer);
  void TellTheRest(const Key& key, const RegionRef& region, const Owner& payer);
  void Registered(const Key& key, const RegionRef& region, const std::string& client_buffer,
                  const Owner& payer, const Result<std::vector<NicRegistration>>& outcome);
  void Conclude(const Key& key, const RegionRef& region, const std::string& client_buffer,
                const Owner& payer, const Status& status);

  // Of a few, so that what is small need not wait for what is large.
  std::string NextWorker(const Region& region);

  Context& context_;
  Connections& connections_;
  std::map<Key, Entry> entries_;
  uint64_t calls_ = 0;
};

}  // namespace onecopy::engine
