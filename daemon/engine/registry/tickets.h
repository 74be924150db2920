// The right of a node to read a range for one transfer.
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
  BufferId memory;    // the buffer that has its memory: itself, unless it is a view
  ByteRange range;    // what may be read of the buffer; of ranges, what they span
  MemoryPlace place;  // where that lies in its memory
  bool gaps = false;  // the buffer's own, which only it knows
  std::string destination_node;
  std::string initiator;
  Owner owner;                   // who asked
  std::optional<GrantId> grant;  // that the right rests on
  TransferId whole = {};         // of several buffers, of which this is a part; empty: of none
  os::Clock::time_point expires = {};
  Status lost = {};     // why the buffer is gone, once it is
  bool ranged = false;  // the request named ranges
  uint64_t record = 0;  // the number of its record; 0: it is not recorded
  // Of the node that asked for it, for as long as any copy of the ticket is kept: what it promises
  // and what is done by it are paid for once.
  std::shared_ptr<Ledger::Charge> charge = {};

  bool part() const { return !whole.empty(); }
  uint64_t payload() const { return place.payload(); }
};

// Engine thread. A ticket holds nothing: what it names may be gone when it is used.
class Tickets {
 public:
  Tickets(Context& context, Buffers& buffers, Grants& grants, Records& records)
      : context_(context), buffers_(buffers), grants_(grants), records_(records) {}

  // Checks the right to read, on behalf of the node `caller`. Of parts each has a ticket of its
  // own, for a transfer of its own (PartId), and each use of one lets the others live on.
  Result<Reservation> Reserve(const std::string& caller, const ReserveRequest& request);
  // The same check; what a ticket for that would say.
  Result<Ticket> Evaluate(const std::string& caller, const ReserveRequest& request) const;
  // Leaves of it these ranges, which span what it is for.
  Status Narrow(const LayoutRef& ranges, Ticket* ticket) const;
  // What a ticket promises, in full. Its buffer must be there.
  Reservation Describe(const Ticket& ticket) const;

  // A ticket that the node `reader` may read by, and that stays good. PERMISSION_DENIED for one
  // that is unknown, used, or another's; the right is checked again. Where the buffer went
  // meanwhile, why it did.
  Result<Ticket> Look(const std::string& reader, const std::string& text,
                      const TransferId& transfer) const;
  // The same, and uses it up, whatever comes of it.
  Result<Ticket> Take(const std::string& reader, const std::string& text,
                      const TransferId& transfer);
  // The same, but the ticket stays recorded until Done: if this process ends first, the reader goes
  // on with it at the next one.
  Result<Ticket> TakeForRun(const std::string& reader, const std::string& text,
                            const TransferId& transfer);
  void Done(uint64_t record) { records_.EraseTicket(record); }
  // Takes back a ticket of the previous process. Returns false if its buffer or its right is gone,
  // or if its payer has no room.
  bool Revive(const TicketRecord& record);
  // Undoes Take, for a reader that is going to try another way. It lives no longer for that.
  void Restore(const std::string& text, Ticket ticket);

  // The node that reserved says that the transfer will not begin: its tickets are worth nothing
  // from now on. False where it has none.
  bool Withdraw(const std::string& initiator, const TransferId& transfer);
  // Whether it has any that are good.
  bool Any(const std::string& initiator, const TransferId& transfer) const {
    return by_transfer_.contains(std::pair(initiator, transfer));
  }

  // The node that reserved has gone, and all of its tickets with it.
  void DropNode(const std::string& initiator);
  // The buffer is gone: that is how transfers from it end which have not begun.
  void DropBuffer(BufferId buffer, const Status& why);

 private:
  // By one secret: a ticket, or those of all parts, whose texts end in their numbers.
  using ByTransfer = std::multimap<std::pair<std::string, TransferId>, SecretDigest>;  // initiator
  struct Entry {
    std::vector<std::optional<Ticket>> tickets;
    ByTransfer::iterator of;
    os::EventLoop::TimerId timer = 0;
  };
  using Table = std::map<SecretDigest, Entry>;

  // Where the ticket with that text is kept; null: nowhere.
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

// The way that any of these bytes of a file takes longest, to or from memory there; null: slots,
// which lie as files want it.
FilePass LongestPass(const StoreFile& file, const ByteRange& range, const LayoutRef& layout,
                     const std::byte* memory = nullptr);

// The range that an endpoint means in a buffer of that size. OUT_OF_RANGE when it does not fit.
Result<ByteRange> ResolveRange(const Endpoint& endpoint, uint64_t buffer_bytes,
                               const std::string& what);
// The same of ranges inside the endpoint: what they span.
Result<ByteRange> ResolveRanges(const Endpoint& endpoint, const Layout& layout,
                                uint64_t buffer_bytes, const std::string& what);

}  // namespace onecopy::engine
