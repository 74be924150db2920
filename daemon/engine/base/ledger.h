// The accounts of what this daemon keeps, queues and reserves for each payer: see
// docs/decisions/who-pays.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/engine/api/figures.h"
#include "daemon/engine/api/limits.h"
#include "daemon/engine/base/owners.h"
#include "onecopy/node.h"

namespace onecopy::engine {

// What is charged. A kind has a limit of its number ([limits]), or of its bytes alone.
enum class Charged : uint8_t {
  kSessions,
  kDescriptors,
  kConnections,      // to api.sock
  kDoors,            // by which these come: users in different namespaces have one each
  kFarConnections,   // to api_listen, of an address
  kPeerConnections,  // to the peers' port, of an address
  kHandshakes,       // of either, that are not over
  kRequests,
  kEndings,  // requests that give something back: also taken from a payer without any share left
  kBuffers,
  kPeerBuffers,  // their memory, of a peer's users: bounded by create_bytes, not by the share
  kGrants,
  kTickets,
  kTransfers,
  kHistory,     // ended transfers and requests that are still known
  kFiles,       // of exports
  kFilesOfOne,  // the same of one of a peer's users, which pays nothing
  kRings,
  kRoutes,
  kBounces,  // their memory, through which staged bytes go
  kOpenings,
  kSlabs,
  kMappings,
  kArrivals,
  kWatches,
  kRequestIds,
};
// What a ring takes beside its routes: its shared memory, and the journal.
inline constexpr uint64_t kChargedOfARing = uint64_t{424} << 10;
// What a route takes, and then its description, which the ring keeps for receipts.
inline constexpr uint64_t kChargedOfARoute = uint64_t{4} << 10;
inline constexpr size_t kChargedKinds = static_cast<size_t>(Charged::kRequestIds) + 1;

// Any thread; copies are one ledger, and charges may outlive it.
//
// All of it is charged in bytes to a payer (PayerOf): a user, a user by certificate, a peer, or the
// address of a connection that has not said who it is. A payer has at most its share
// (Limits::memory.each); all together have at most the total. The last quarter of what all may have
// is for payers that have little (a sixteenth), so that a few large ones do not lock others out.
// The same holds for the number of each kind that has a limit. An administrator of this node is
// counted, but bound by the totals alone, of which a part is for administrators only.
class Ledger {
  struct Books;
  struct Account;

 public:
  // The right to have some of a kind, until it goes.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept { *this = std::move(other); }
    Charge& operator=(Charge&& other) noexcept;
    ~Charge() { GiveBack(); }

    size_t count() const { return books_ == nullptr ? 0 : count_; }
    // That it has beside those that each of the kind takes.
    uint64_t bytes() const { return books_ == nullptr ? 0 : bytes_; }
    bool administrator() const { return administrator_; }
    // What the other one has, of the same payer and kind.
    void Absorb(Charge&& other);
    // More or fewer bytes: of what is there already, so it is never refused.
    void SetBytes(uint64_t bytes);
    // As many of them, or all and their bytes.
    void GiveBack(size_t count = SIZE_MAX);

   private:
    friend class Ledger;
    std::shared_ptr<Books> books_;
    Account* account_ = nullptr;
    Charged kind_ = Charged::kRequests;
    bool administrator_ = false;
    size_t count_ = 0;
    uint64_t bytes_ = 0;
  };

  Ledger(std::string node, const Limits& limits);

  // One more, with so many bytes beside those that each of the kind takes, for as long as the
  // charge stays. RESOURCE_EXHAUSTED (QUOTA), which names the limit and where it is set.
  Result<Charge> Take(Charged kind, const Owner& owner, bool administrator,
                      uint64_t bytes = 0) const;
  Result<Charge> Take(Charged kind, const Principal& who, uint64_t bytes = 0) const {
    return Take(kind, OwnerOf(who), who.administrator, bytes);
  }
  // One more into a charge of the same owner and kind (and as much an administrator), or into an
  // empty one.
  Status TakeInto(Charge& charge, Charged kind, const Owner& owner, bool administrator,
                  uint64_t bytes = 0) const;
  // The same, as a charge that lasts until its last reference goes.
  Result<std::shared_ptr<Charge>> Share(Charged kind, const Owner& owner, bool administrator,
                                        uint64_t bytes = 0) const;

  size_t count(Charged kind, const Owner& owner) const;
  size_t count(Charged kind) const;
  uint64_t bytes(Charged kind, const Owner& owner) const;
  uint64_t bytes(Charged kind) const;
  // Of all kinds that are of the payer's share together.
  uint64_t SharedBytes(const Owner& owner) const;
  uint64_t bytes() const;  // of everything
  // What each payer has, for at most so many payers, the largest first.
  std::vector<AccountInfo> Describe(size_t most) const;
  // How much of each limited kind all have together, of how much.
  std::vector<QuotaFigures> Quotas() const;
  // `fell` runs, on any thread, when much has been given back since it ran last, and must not
  // block. Null ends that.
  void OnFall(std::function<void()> fell) const;
  // Within which the bytes of a kind must be: alone, or with all others that are of the share.
  Limit ByteLimit(Charged kind) const;

 private:
  std::shared_ptr<Books> books_;
};

}  // namespace onecopy::engine
