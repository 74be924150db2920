// Receipts of transfers by rings, made on request from what the rings' thread noted.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/engine/arrivals/arrivals.h"
#include "daemon/engine/base/context.h"
#include "daemon/engine/registry/buffers.h"
#include "daemon/engine/rings/client_ring.h"
#include "daemon/engine/rings/long_rates.h"
#include "daemon/engine/transfers/transfers.h"

namespace onecopy::engine {

// Engine thread. Puts entries of rings' journals into the table of transfers, each once.
class RingReceipts {
 public:
  RingReceipts(const Context& context, Transfers& transfers, Buffers& buffers, Arrivals& arrivals,
               LongRates& rates)
      : context_(context),
        transfers_(transfers),
        buffers_(buffers),
        arrivals_(arrivals),
        rates_(rates) {}

  // The transfer with that number, if the ring's journal still has it.
  void File(ClientRing& ring, uint64_t number);
  // A long one that has just ended: files it, as if it had been asked for by gRPC.
  void Tell(ClientRing& ring, const ring::Entry& entry);
  // How many of those have ended without lines of their own in the log, as too many do. Tell says
  // it from time to time; once more at the ring's end.
  static void LogLeftOut(ClientRing& ring);
  // All that have not been filed yet, the oldest first, as if they had been there all the time; no
  // more of an owner's than the table keeps.
  void FileAll(const std::vector<ClientRing*>& rings);

 private:
  struct Unfiled {
    ring::Entry entry;
    ClientRing* ring;
  };

  static void Collect(ClientRing& ring, std::vector<Unfiled>* unfiled);
  // Null where nothing is known of it, or it is there already.
  TransferRecord* AddEntry(ClientRing& ring, const ring::Entry& entry, Status* outcome);
  void FileEntry(ClientRing& ring, const ring::Entry& entry);
  // A long one went into a buffer of this node: tells its watchers, and keeps the path's rate.
  void NoteArrived(const RouteRecord& route, const ring::Entry& entry, TransferInfo& info);

  const Context& context_;
  Transfers& transfers_;
  Buffers& buffers_;
  Arrivals& arrivals_;
  LongRates& rates_;
};

}  // namespace onecopy::engine
