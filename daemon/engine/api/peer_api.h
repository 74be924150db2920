// What one daemon asks of another. Three implementations: the local node (a transfer whose ends are
// both here takes the same way as any other), the gRPC proxy of a remote one, and, in tests, a
// direct call into a second engine. See proto/onecopy/v1/peer.proto for what each call does.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/types.h"
#include "transport/core/contracts/link.h"
#include "transport/core/contracts/store.h"
#include "transport/core/ranges/layout.h"
#include "transport/core/ranges/scatter.h"
#include "transport/digest/tree.h"
#include "transport/os/threads/event_loop.h"

namespace onecopy::engine {

struct Introduction {
  std::string node;
  std::string boot_id;
  uint32_t protocol_min = 0;
  uint32_t protocol_max = 0;
  std::string version;
  std::string address;  // HOST:PORT
  std::string uid_domain;
  bool draining = false;
  bool files = false;         // it takes bytes of other nodes' files
  bool writes_files = false;  // and writes its own for other nodes, where it exports them
  uint64_t generation = 0;
  std::optional<NodeCapability> capabilities;
};

struct HelloRequest {
  Introduction self;
  uint64_t known_generation = 0;
  std::string known_boot_id;
  std::string namesake = {};  // as in HelloReply, of the called node
};

struct HelloReply {
  Introduction self;
  // Where another daemon with the caller's name is, which answers at the same time; empty: none is
  // known.
  std::string namesake = {};
};

// What one part of a transfer of several buffers reads.
struct SourcePart {
  Endpoint source;
  LayoutRef ranges;  // inside it, never null
};

struct ReserveRequest {
  TransferId id;
  Uid uid;
  bool administrator = false;  // only ever set by a node that asks itself
  std::string destination_node;
  Endpoint source;
  LayoutRef ranges;  // inside the source, counted from where it begins; null: all of it
  bool validate_only = false;
  std::vector<SourcePart> parts = {};  // instead of `source` and `ranges`
  bool begun = false;                  // a part of what has begun
};

struct Reservation {
  std::string ticket;  // empty when only validated
  std::chrono::milliseconds lifetime{0};
  Endpoint source;  // complete: node, buffer, offset, bytes; of ranges, what they span
  std::string memory;
  std::string device;
  std::optional<FilePass> file_pass = {};  // of a file: the longest way that any byte takes
  std::vector<Reservation> parts = {};     // of each part; the rest is then that of the first
  std::string memory_id = {};  // of the buffer that has the memory; empty: its node does not tell
  // Of an array with gaps: where the bytes lie, from the first one on; else null.
  LayoutRef place = {};
  uint64_t memory_offset = 0;  // where the first one lies in the memory; told to no other node
};

// From one buffer to another, of a transfer of several.
struct StartPart {
  Reservation reservation;
  uint32_t destination = 0;  // number of the buffer: see StartRequest::asked
  ScatterRef ranges;         // never null
};

// The client's request, with what the source's node has answered. Where the bytes are is the
// reservation's word: neither `asked.source` nor `asked.ranges` is read.
struct StartRequest {
  TransferId id;
  Uid uid;
  bool administrator = false;  // only ever set by a node that asks itself
  Reservation reservation;
  TransferRequest asked;
  ScatterRef ranges;  // inside the two ends, counted from where these begin; null: all of them
  std::optional<TransferInfo> series = {};  // that this is a part of, decided by the caller
  // Of a transfer of several buffers, instead of `reservation` and `ranges`: which of
  // asked.destination and asked.more_destinations each goes to.
  std::vector<StartPart> parts = {};
  uint64_t asked_ranges = 0;  // of all parts together, as the client asked
  // When the client's request reached this node. Set only if the destination is this node; never
  // sent.
  std::optional<os::Clock::time_point> since = {};
};

struct ConnectRequest {
  std::string link;
  std::string offer;
};

struct ConnectReply {
  std::string answer;
  uint64_t connection = 0;
  std::string host;  // IP address that the answer came from; filled in by the caller's side
};

struct PrepareRequest {
  std::string ticket;
  TransferId id;
  uint64_t connection = 0;
  uint64_t channel = 0;
  bool staged = false;
  uint64_t chunk_bytes = 0;  // staged: the largest chunk that the reader can take
  std::optional<std::chrono::milliseconds> deadline;
  TransferInfo transfer;
  uint64_t loan = 0;  // not 0: the reader has borrowed the memory, and uses no connection
  std::optional<TransferInfo> series = {};  // as in StartRequest
  std::vector<std::string> nics = {};  // of the source, that the reader is going to read through
  bool places = false;                 // the reader reads by Reservation::place
  uint64_t arrived_bytes = 0;  // staged: of the payload's beginning, that need not be sent again
  uint64_t until_bytes = 0;    // staged: where in the payload to end; 0: at its end
};

// Over a connection, what else there is to know comes through the channel.
struct PrepareReply {
  ByteRange lent = {};           // by loan: what of the lent memory may be read
  uint64_t begins_at_bytes = 0;  // staged: the first byte of the payload that is sent
};

struct ImportMemoryRequest {
  std::string ticket;
  TransferId id;
};

// Memory of another daemon of this host, to be fetched over a Unix socket (see daemon/handover).
struct MemoryExport {
  uint64_t id = 0;  // one buffer's in one generation; never 0
  std::string address;
  std::string token;
};

struct FinishRequest {
  TransferId id;
  Status status;
  bool checksum = false;
  ChannelId channel = 0;  // of the attempt that has ended; 0: of whichever there is
  bool unproven = false;  // parts of what has arrived may be asked for again
};

struct FinishReply {
  Status failure;  // what went wrong at the source, if anything did
  std::vector<ExecutedStep> steps;
  digest::TreeSum checksum = {};  // if it was asked for
  bool shared = false;            // whether other transfers ran there meanwhile
  std::string storage = {};       // of a file: what read it, for the evidence
};

struct OpenProbeRequest {
  uint64_t connection = 0;
  std::string memory;
  std::string device;
  uint64_t bytes = 0;
  uint64_t seed = 0;
};

struct OpenProbeReply {
  uint64_t probe = 0;
  std::string key;
  uint64_t bytes = 0;  // at most what was asked for
};

// For transfers by rings: see Openings.
struct OpenRangeRequest {
  std::string ticket;
  TransferId id;            // that the ticket was made for
  uint64_t connection = 0;  // by which it is read; 0: in place, in the memory of `loan`
  uint64_t loan = 0;
  uint64_t sums = 0;  // a channel on which the caller will ask for checksums; 0: it will not
  // A channel on which the caller will ask for parts of the range, to be copied to where the key
  // leads: the link cannot read the range itself. 0: the key is for the range.
  uint64_t fills = 0;
};

struct OpenRangeReply {
  uint64_t opening = 0;
  std::string key;
  ByteRange lent = {};  // by loan: where the range is in that memory
  bool sums = false;    // whether checksums are told
  // For `fills`: how many bytes there are where the key leads, and the step that each copy takes.
  uint64_t fill_bytes = 0;
  std::vector<Step> fill_steps = {};
};

struct OpenPushRequest {
  TransferId id;  // that the reservation's ticket was made for
  Uid uid;
  Reservation reservation;
  Endpoint destination;
  uint64_t channel = 0;       // of short transfers
  uint64_t long_channel = 0;  // of long ones
  std::string prefix;         // of the transfers' ids
};

struct OpenPushReply {
  uint64_t opening = 0;
  uint64_t connection = 0;
  Endpoint destination;  // complete: what may be written
  Plan plan;
  LinkAccess access;        // for receipts
  uint64_t most_bytes = 0;  // of one transfer
  std::string shared = {};  // how the source's memory is used in place: "vmm-fd"; empty: it is not
  bool sums = false;        // whether checksums of short ones are compared
  // Whether the node copies the bytes once more after it has read them. Then a transfer may still
  // write when the node can read nothing more, until the node has answered it, or CloseOpening.
  bool staged = false;
};

// A message alone, for a buffer of the node asked.
struct PeerMessage {
  Uid uid;
  bool administrator = false;  // only ever set by a node that asks itself
  MessageRequest asked;        // the destination's node is not read
};

// `caller` is the node that asks, as the connection proves it. Engine thread; every reply comes on
// the engine's thread of the asking side, exactly once; a proxy bounds each call in time
// (UNAVAILABLE, DEADLINE_EXCEEDED).
class PeerApi {
 public:
  virtual ~PeerApi() = default;

  virtual void Hello(const std::string& caller, HelloRequest request, Reply<HelloReply> reply) = 0;
  virtual void Reserve(const std::string& caller, ReserveRequest request,
                       Reply<Reservation> reply) = 0;
  virtual void Start(const std::string& caller, StartRequest request,
                     Reply<TransferInfo> reply) = 0;
  virtual void Connect(const std::string& caller, ConnectRequest request,
                       Reply<ConnectReply> reply) = 0;
  virtual void Prepare(const std::string& caller, PrepareRequest request,
                       Reply<PrepareReply> reply) = 0;
  virtual void Finish(const std::string& caller, FinishRequest request,
                      Reply<FinishReply> reply) = 0;
  virtual void OpenProbe(const std::string& caller, OpenProbeRequest request,
                         Reply<OpenProbeReply> reply) = 0;
  virtual void CloseProbe(const std::string& caller, uint64_t probe, StatusReply reply) = 0;
  virtual void OpenRange(const std::string& caller, OpenRangeRequest request,
                         Reply<OpenRangeReply> reply) = 0;
  virtual void OpenPush(const std::string& caller, OpenPushRequest request,
                        Reply<OpenPushReply> reply) = 0;
  virtual void CloseOpening(const std::string& caller, uint64_t opening, StatusReply reply) = 0;
  virtual void ImportMemory(const std::string& caller, ImportMemoryRequest request,
                            Reply<MemoryExport> reply) = 0;
  virtual void Recall(const std::string& caller, uint64_t loan, TransferId id,
                      StatusReply reply) = 0;
  virtual void Report(const std::string& caller, TransferInfo transfer, StatusReply reply) = 0;
  virtual void Query(const std::string& caller, TransferId id, Reply<TransferInfo> reply) = 0;
  virtual void Cancel(const std::string& caller, Uid uid, TransferId id,
                      Reply<TransferInfo> reply) = 0;
  // On behalf of that user of the caller's.
  virtual void CreateBuffer(const std::string& caller, Uid uid, CreateBufferRequest request,
                            Reply<BufferInfo> reply) = 0;
  virtual void DeleteBuffer(const std::string& caller, Uid uid, std::string name, bool force,
                            StatusReply reply) = 0;
  virtual void GetBuffer(const std::string& caller, Uid uid, std::string name,
                         Reply<BufferInfo> reply) = 0;
  virtual void ListBuffers(const std::string& caller, Uid uid, PageRequest page,
                           Reply<Page<BufferInfo>> reply) = 0;
  virtual void SumBuffer(const std::string& caller, Uid uid, SumRequest request,
                         Reply<BufferSum> reply) = 0;
  virtual void ListGrants(const std::string& caller, Uid uid, PageRequest page,
                          Reply<Page<GrantInfo>> reply) = 0;
  virtual void ListExports(const std::string& caller, Uid uid, PageRequest page,
                           Reply<Page<ExportInfo>> reply) = 0;
  virtual void SendMessage(const std::string& caller, PeerMessage message, StatusReply reply) = 0;
};

// How the engine reaches a peer.
class PeerDialer {
 public:
  virtual ~PeerDialer() = default;

  // Engine thread; does not block. The channel connects by itself when it is first used; destroying
  // it ends its calls with CANCELLED. `name` is what the far end must prove to be.
  virtual std::unique_ptr<PeerApi> Dial(const std::string& name, const std::string& address) = 0;
};

}  // namespace onecopy::engine
