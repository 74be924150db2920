// A carrier between nodes. One verb moves data: the reading side gets. Small ordered messages
// travel beside it.
//
// Every pair of nodes has at most one Connection per link and direction, shared by all transfers
// that read in that direction. The reader dials: it makes an offer, the peer's accept answers it,
// both travel over PeerService; nothing of the data path does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "onecopy/capability.h"
#include "onecopy/result.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/flow.h"
#include "transport/core/contracts/region.h"
#include "transport/core/contracts/step.h"

namespace onecopy {

// Names one transfer's traffic on a connection. Chosen at random by the reader.
using ChannelId = uint64_t;

// What the owner of bytes hands to a reader so that it may get them. Opaque outside the link; it
// travels only inside PeerService and in messages of the connection that it is for, and is never
// logged.
using RemoteKey = std::string;

// Addresses at which one node's lanes may arrive.
inline constexpr size_t kMaxLaneAddresses = 8;

// What a get takes beside its bytes, as if these were more: for the turns of those that wait.
inline constexpr uint64_t kGetCostBytes = 4096;

// One stream of a connection.
struct LaneInfo {
  std::string device;            // "lo", "mlx5_0"
  std::string peer;              // the far end's address
  std::string peer_device = {};  // the far end's device, as its node names it; empty: not known
};

struct GetRequest {
  ChannelId channel = 0;
  const RemoteKey* key = nullptr;  // must stay valid until the get has completed
  uint64_t key_offset = 0;         // inside what the key was made for
  Span into;                       // of a region that is registered with the link
  int lane = kAnyLane;             // of lanes(), to measure one; normally the link chooses
  // What each of lanes() is believed to carry of such gets, in bytes per second; 0 for one to be
  // used only where no other can. Empty: the link judges by its ports, as do links that have no say
  // in it. Valid for as long as `key`.
  std::span<const double> lane_rates = {};
  // Whose gets these are: those of several that wait take turns.
  Flow flow = {};

  static constexpr int kAnyLane = -1;
};

// How a reader comes to its right to read, for the receipt.
struct LinkAccess {
  // How the memory is known to the network devices: "none", "host", "dma-buf", "peermem",
  // "ucx-writable"; unlike ends are told apart as "source > destination".
  std::string registration = "none";
  std::string key = "none";  // "window", "lease"
  // How the payload is protected on the wire, and by whom: "TLS 1.3, TLS_AES_128_GCM_SHA256, by
  // daemon", or "by kernel"; unlike ends are told apart as "source > destination".
  std::string encryption = "none";

  friend bool operator==(const LinkAccess&, const LinkAccess&) = default;
};

// What became of a region's registration with one network device.
struct NicRegistration {
  std::string nic;  // as in NicCapability
  std::string how;  // as in LinkAccess::registration
  Status status;    // why not; what the device or its driver said is in the text
};

// Threads: every method is safe on any thread and does not block unless it says so; every callback
// runs on executor() and must not block.
class Connection {
 public:
  // `steps` are those of both ends; `lane` indexes lanes(). A get that succeeded has landed in
  // memory.
  using GetDone = UniqueFunction<void(Status, const StepList& steps, unsigned lane)>;
  // Bytes are valid during the call only.
  using MessageHandler = UniqueFunction<void(std::span<const std::byte>)>;

  static constexpr size_t kMaxMessageBytes = 1024;

  // Close() must have completed first.
  virtual ~Connection() = default;

  virtual Executor& executor() = 0;
  virtual const std::vector<LaneInfo>& lanes() const = 0;
  // What a get by `key` into that region rests on.
  virtual LinkAccess Access(const RemoteKey& key, const Region& into) const = 0;

  // How many gets should be in flight, and of what size, for full speed.
  virtual unsigned depth() const = 0;
  virtual uint64_t chunk_bytes() const = 0;

  // Reader. Completes exactly once, after nothing writes to `into` any more.
  virtual void Get(const GetRequest& request, GetDone done) = 0;
  // How many gets have ended so far, of whatever channel: whether others' get on while one waits
  // for its turn.
  virtual uint64_t gets_ended() const { return 0; }
  // Reader: completes the channel's gets with CANCELLED, as soon as their memory is released.
  virtual void CancelGets(ChannelId channel) = 0;

  // Owner: allows the peer to get `span`, of a region that is registered with the link, until
  // Revoke. The connection holds the region meanwhile. Fails for memory that the link cannot read
  // in place.
  virtual void Export(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) = 0;
  // Owner: fails further gets, and runs `done` when nothing reads the span any more: at once, or
  // within a bounded time, after which the connection is closed to end a get that the peer does not
  // take.
  virtual void Revoke(const RemoteKey& key, Task done) = 0;

  // Owner: like Export, of host memory whose other bytes are not this peer's business at any time,
  // as a slot's among other slots: the key opens this very span and not one byte more, however the
  // link does it. Ends with EndLoan once the peer has said that it reads no more, else with
  // Revoke.
  virtual void Lend(const Span& span, UniqueFunction<void(Result<RemoteKey>)> done) = 0;
  // Owner: like Revoke, without asking the peer, which has called Release. One that reads on
  // nevertheless may lose the connection by it.
  virtual void EndLoan(const RemoteKey& key, Task done) = 0;
  // Reader: no get by this key is under way, nor will there be one.
  virtual void Release(const RemoteKey& key) = 0;

  // Both: messages of one channel arrive in order; those of a channel without a listener are
  // dropped. Listening begins before Listen returns; a call of the handler may still be under way
  // when Ignore does. Send is UNAVAILABLE after Close, INVALID_ARGUMENT above kMaxMessageBytes.
  virtual void Listen(ChannelId channel, MessageHandler handler) = 0;
  virtual void Ignore(ChannelId channel) = 0;
  virtual Status Send(ChannelId channel, std::span<const std::byte> message) = 0;

  // Both: `closed` runs once, when the connection can carry no more (a lane failed, the peer or
  // Close() ended it), after every get has completed and every export ended. Set once, before
  // Establish or right after Accept.
  virtual void OnClosed(UniqueFunction<void(Status)> closed) = 0;
  virtual void Close(Status why) = 0;
  // Reader: `changed` runs with an address of the peer's that does not carry anything any more, and
  // why, while others do; and with OK once it carries again. At once with those that never did. Set
  // once; for connections over one address there is nothing to tell.
  using AddressChanged = UniqueFunction<void(const std::string& address, const Status& why)>;
  virtual void OnAddress(AddressChanged /*changed*/) {}
  // Whether it is ending or has ended: nothing can be begun on it any more. `closed` may still be
  // about to run.
  virtual bool closed() const = 0;

  // What the carrier itself counted, for a receipt's evidence: names of this link and numbers that
  // only grow. May take a system call per lane. `done` runs on executor().
  virtual void Evidence(
      UniqueFunction<void(std::vector<std::pair<std::string, uint64_t>>)> done) = 0;
};

// The reader's half of setting up a connection.
class Dialing {
 public:
  virtual ~Dialing() = default;
  // For the peer's Link::Accept.
  virtual const std::string& offer() const = 0;
  // Any thread: takes the answer and connects to `host`, the IP address that the peer's daemon
  // answered from; `done` runs on the link's own thread. Bounded in time.
  virtual void Establish(const std::string& host, const std::string& answer,
                         UniqueFunction<void(Result<std::shared_ptr<Connection>>)> done) = 0;
};

// Threads: every method is safe on any thread; Register and Shutdown block, the others do not.
class Link {
 public:
  virtual ~Link() = default;

  virtual const std::string& name() const = 0;
  virtual LinkCapability Describe() const = 0;
  // `changed` runs, on a thread of the link, whenever Describe would say something else than before
  // (a port that goes down or comes up). Set once, before the first connection.
  virtual void OnChange(UniqueFunction<void()> changed) = 0;

  // Makes the region known to the link's devices, for as long as it lives: once, however many gets,
  // exports and slices follow; a second call answers what the first did. One entry per device; a
  // link that needs no registration has none. May block for long (pins memory, asks a driver).
  // Fails with the reason why no device can use this memory in place (HOST_NOT_PINNABLE, MEMLOCK,
  // GPU_NOT_PINNABLE). `nics`: which devices have to know it, as in NicCapability; empty: all.
  // Where none of those can use it, all are tried.
  virtual Result<std::vector<NicRegistration>> Register(const RegionRef& region,
                                                        const std::vector<std::string>& nics) = 0;
  Result<std::vector<NicRegistration>> Register(const RegionRef& region) {
    return Register(region, {});
  }

  // Owner: what the link lets peers read of this region beyond their exports, for the sake of the
  // next transfer, ends: soon, or with the last export that shares it. Nothing to do for a link
  // whose keys end with their exports.
  virtual void EndLeases(const RegionRef& /*region*/) {}

  // Reader: begins a connection to the node `peer`, which may be this one. `done` runs on a thread
  // of the link, or at once.
  using Dialled = UniqueFunction<void(Result<std::unique_ptr<Dialing>>)>;
  virtual void Dial(const std::string& peer, Dialled done) = 0;

  struct Accepted {
    std::shared_ptr<Connection>
        connection;  // usable once the reader has connected; closes if it never does
    std::string answer;
  };
  // Owner: answers an offer; likewise. INVALID_ARGUMENT for one that makes no sense: it comes from
  // another machine.
  using Answered = UniqueFunction<void(Result<Accepted>)>;
  virtual void Accept(const std::string& peer, const std::string& offer, Answered done) = 0;

  // Closes what is open and joins the link's threads; dials under way do not complete. Nothing of
  // the link may be called afterwards.
  virtual void Shutdown() = 0;
};

}  // namespace onecopy
