// A ticket: the right of one node to read a range of a buffer here, for one transfer.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/base/secret_digest.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/registry/grants.h"
#include "daemon/engine/registry/places.h"
#include "daemon/engine/registry/records.h"

namespace onecopy::engine {

struct Ticket {
  TransferId transfer;
  BufferId buffer;
  BufferId memory;               // the buffer that has the memory: that one, unless it is a view
  ByteRange range;               // what may be read of the buffer; with ranges, what they span
  MemoryPlace place;             // where that lies in its memory
  bool gaps = false;             // whether the buffer itself has gaps: see HasGaps
  std::string destination_node;  // the node that may read
  std::string initiator;         // the node that reserved
  Owner owner;                   // the user that asked
  std::optional<GrantId> grant;  // gives the right; unset: it needs none
  TransferId whole = {};         // the transfer that this one is a part of; empty: none
  os::Clock::time_point expires = {};
  Status lost = {};       // why the buffer is gone, once it is
  bool ranged = false;    // the request named ranges
  uint64_t record = 0;    // the number of its record; 0: it is not recorded
  uint32_t unproven = 0;  // how often all has been read, and parts were asked for again
  // Paid by the node that reserved, or by the owner if that is this node (see PayerAt). All copies
  // share it: a reservation and the read that uses it cost one charge.
  std::shared_ptr<Ledger::Charge> charge = {};

  bool part() const { return !whole.empty(); }
  uint64_t payload() const { return place.payload(); }
};

// Engine thread. A ticket keeps nothing alive: its buffer or grant may be gone when it is used.
class Tickets {
 public:
  Tickets(Context& context, Buffers& buffers, Grants& grants, Records& records)
      : context_(context), buffers_(buffers), grants_(grants), records_(records) {}

  // Checks the right to read for a user of node `caller`, and issues a ticket unless the request
  // only validates. Each part of a request gets its own ticket, for its own transfer (see PartId).
  // Each use of one part's ticket renews the lifetime of the others.
  Result<Reservation> Reserve(const std::string& caller, const ReserveRequest& request);
  // Makes the same check. Returns the ticket that Reserve would issue.
  Result<Ticket> Evaluate(const std::string& caller, const ReserveRequest& request) const;
  // Limits the ticket to these ranges of its range, if they have gaps and span all of it.
  Status Narrow(const LayoutRef& ranges, Ticket* ticket) const;
  // Returns what the ticket allows, without its text and lifetime. Its buffer must still exist.
  Reservation Describe(const Ticket& ticket) const;

  // Checks that node `reader` may use the ticket for this transfer, and leaves it valid.
  // PERMISSION_DENIED for a ticket that is unknown, used or another node's or transfer's, or whose
  // grant has ended. If the buffer is gone or being removed, returns why.
  Result<Ticket> Look(const std::string& reader, const std::string& text,
                      const TransferId& transfer) const;
  // Likewise, but uses the ticket up, even if its buffer or grant is gone.
  Result<Ticket> Take(const std::string& reader, const std::string& text,
                      const TransferId& transfer);
  // As Take, but keeps the ticket's record until Done: if this process ends first, the reader can
  // use the ticket again at the next process.
  Result<Ticket> TakeForRun(const std::string& reader, const std::string& text,
                            const TransferId& transfer);
  void Done(uint64_t record) { records_.EraseTicket(record); }
  // Makes a ticket of the previous process valid again. Returns false if its buffer or right is
  // gone, or if its payer has no room.
  bool Revive(const TicketRecord& record);
  // Undoes Take or TakeForRun, for a reader that will try another path. Its lifetime does not grow.
  void Restore(const std::string& text, Ticket ticket);

  // The transfer will not begin: drops the tickets that node `initiator` reserved for it. Returns
  // false if there are none.
  bool Withdraw(const std::string& initiator, const TransferId& transfer);
  // Whether `initiator` has tickets for that transfer.
  bool Any(const std::string& initiator, const TransferId& transfer) const {
    return by_transfer_.contains(std::pair(initiator, transfer));
  }

  // Drops all tickets that node `initiator` reserved, when it has gone or restarted.
  void DropNode(const std::string& initiator);
  // The buffer is gone: transfers that have not begun to read it fail with `why`.
  void DropBuffer(BufferId buffer, const Status& why);

 private:
  // The secrets of tickets, by the initiator and the transfer.
  using ByTransfer = std::multimap<std::pair<std::string, TransferId>, SecretDigest>;
  // What one secret gives: one ticket, or one for each part. A part's text ends in its number.
  struct Entry {
    std::vector<std::optional<Ticket>> tickets;
    ByTransfer::iterator of;
    os::EventLoop::TimerId timer = 0;
  };
  using Table = std::map<SecretDigest, Entry>;

  // Where the ticket with that text is kept; null: there is none.
  std::optional<Ticket>* Find(const std::string& text);
  const std::optional<Ticket>* Find(const std::string& text) const;
  void Put(const std::string& text, Ticket ticket);
  Result<Ticket> Use(const std::string& reader, const std::string& text,
                     const TransferId& transfer);
  void Forget(const std::string& text);
  // Writes the ticket's record, if its buffer survives this process.
  void Record(const std::string& text, Ticket& ticket);
  void Erase(Table::iterator kept);
  void KeepUntil(const SecretDigest& secret, Entry& kept, os::Clock::time_point expires);

  Context& context_;
  Buffers& buffers_;
  Grants& grants_;
  Records& records_;
  Table tickets_;
  ByTransfer by_transfer_;
};

// How bytes of this range go between the file and `memory`; if some need more copies than others,
// how those go. `memory` is null for staging slots, whose addresses always fit.
FilePass LongestPass(const StoreFile& file, const ByteRange& range, const LayoutRef& layout,
                     const std::byte* memory = nullptr);

// The range that an endpoint names in a buffer of that size. OUT_OF_RANGE if it does not fit.
Result<ByteRange> ResolveRange(const Endpoint& endpoint, uint64_t buffer_bytes,
                               const std::string& what);
// Likewise for ranges inside the endpoint: returns the range that they span.
Result<ByteRange> ResolveRanges(const Endpoint& endpoint, const Layout& layout,
                                uint64_t buffer_bytes, const std::string& what);

}  // namespace onecopy::engine
