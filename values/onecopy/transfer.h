// What a client asks of transfers and what it is told about them: values, as onecopy.v1 has them on
// the wire.
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "onecopy/ids.h"
#include "onecopy/pacing.h"
#include "onecopy/range.h"
#include "onecopy/status.h"
#include "onecopy/step.h"
#include "onecopy/trace_context.h"

namespace onecopy {

using WallTime = std::chrono::system_clock::time_point;

// A range of a buffer.
struct Endpoint {
  std::string node = {};                      // empty: the node that the client is attached to
  std::string buffer = {};                    // name, or BufferInfo::id
  std::optional<uint64_t> offset_bytes = {};  // absent: 0
  // Absent: up to the buffer's end or, at a destination, as long as the source.
  std::optional<uint64_t> bytes = {};
  // Instead of `buffer`: a file of the client on that node, or "-". In a request, other than a
  // series, with a descriptor of it that was passed to the daemon; without one, a file of that node
  // by its absolute path, below a folder that its daemon exports ([exports.NAME]) to the caller. At
  // a destination such a file is written as a whole, and gets its name in the end; with
  // `offset_bytes`, `bytes` or ranges, in place, and must be there.
  std::string file = {};
  // That descriptor, and another one of the same file that was opened with O_DIRECT; 0: none. Good
  // once, in the session that passed them, and never told of a transfer.
  uint64_t fd_handle = 0;
  uint64_t direct_fd_handle = 0;
  // With fd_handle, at the destination: the file reads as zeros up to its length, so that what is
  // zero for long may stay a hole.
  bool is_new_file = false;

  // As people type it: "east:a@4096+64", "a".
  std::string ToString() const;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

// What the caller accepts. As constructed: the fastest path, with the fewest copies among equals.
struct Policy {
  std::string path_glob = {};  // a path's name in which * and ? stand for others; empty: any
  std::optional<uint32_t> at_most_copies = {};
  std::string link = {};        // name of a link; empty: any
  bool allow_emulated = false;  // whether a software RDMA device may meet at_most_copies
  // Whether one end is memory through which the caller moves a file: its own pass between the two
  // is one copy more, and at_most_copies counts it. Of a series it always is so.
  bool client_file = false;

  friend bool operator==(const Policy&, const Policy&) = default;
};

struct TransferRequest {
  Endpoint source = {};
  Endpoint destination = {};
  // Other buffers that ranges name, on the node of `source` and of `destination`; their own `node`
  // is that one or empty. At most 4,096 at each end, and as many pairs of buffers; offsets count
  // from where each begins. They need `ranges`, and BAD_ENDPOINT refuses another node's. What has
  // more than one pair of buffers moves as parts, one for each pair, and is one transfer for
  // everyone: one id, progress, cancellation, deadline, outcome and receipt. Where one part cannot
  // be (rights, policy, ranges), nothing moves at all.
  std::vector<Endpoint> more_sources = {};
  std::vector<Endpoint> more_destinations = {};
  // Only these, at most 131,072; empty: all of the source. One transfer moves them all, with one
  // negotiation; those that follow each other without a gap are joined. INVALID_ARGUMENT
  // (SIZE_MISMATCH) for a pair of unlike sizes, (BAD_SIZE) for a range without bytes, and
  // (RANGES_OVERLAP) for elements or destinations that share a byte with each other, or with a
  // source in the same buffer; OUT_OF_RANGE (RANGE_OUT_OF_BUFFER) for what is not inside its end.
  std::vector<RangePair> ranges = {};
  // The same for ranges of one length, which take less memory and time so; BlockLayout makes them
  // of block numbers. Copies of the request share them. Instead of `ranges`: INVALID_ARGUMENT
  // (BAD_ARGUMENT) for both, or for columns of unlike lengths.
  std::shared_ptr<const EqualRanges> equal_ranges = {};
  Policy policy = {};
  bool checksum = false;  // whether to compare checksums of both ends after the bytes have arrived
  // Where the destination is a file that its node exports: the transfer has succeeded only once the
  // disk has it, and its name (fsync). INVALID_ARGUMENT (BAD_ARGUMENT) for any other destination.
  bool sync = false;
  // The transfer fails with DEADLINE_EXCEEDED after it. Absent: no limit.
  std::optional<std::chrono::milliseconds> deadline = {};
  // A request repeated with the same id (at most 64 characters) starts nothing new, for ten minutes
  // at least unless the daemon's [limits] say otherwise. Empty: the library chooses one.
  std::string request_id = {};
  // For the destination's owner, any bytes, at most 4,096 (kMaxArrivalMessageBytes): told once all
  // of the payload is there, and never where the transfer fails; see Client::WatchArrivals. The
  // destination must have a watcher, or keep its arrivals: FAILED_PRECONDITION (NOT_WATCHED)
  // otherwise. Empty: none.
  std::string message = {};
  // A series that this is a part of; see Client::OpenSeries. Policy, checksum and deadline are then
  // the series' and not to be set here.
  TransferId part_of = {};
  // Checks and plans only: nothing is started, and what comes back has a plan and no id.
  bool validate_only = false;
  // Of a part, its series' counts.
  Pacing pacing = {};
  // In the logs and the lists of all nodes that have a part in it. Of a part, its series' counts.
  TraceContext trace = {};
};

// A transfer that the caller moves in parts: a file through a window of memory, again and again.
struct SeriesRequest {
  Endpoint source = {};  // one of the ends is a file on the node that the client is attached to
  Endpoint destination = {};
  std::optional<uint64_t> bytes = {};  // of all parts together; absent: not known yet
  // Of every part, the caller's own pass between file and memory included.
  Policy policy = {};
  bool checksum = false;                                   // of every part
  std::optional<std::chrono::milliseconds> deadline = {};  // of the whole
  Pacing pacing = {};                                      // of the whole
  TraceContext trace = {};                                 // likewise
};

// The end of a series, by the client that moved it.
struct SeriesEnd {
  TransferId id;
  Status failure;        // OK: all of it has arrived
  std::string checksum;  // of the whole payload then, where one was asked for, in hexadecimal
};

// The path that would be taken or was chosen, before any byte has moved.
struct Plan {
  std::string path;         // from the ladder: "tcp-staged"
  std::string link;         // empty inside a node
  std::vector<Step> steps;  // in order
  double estimated_bytes_per_second = 0;
  bool measured = false;       // whether the estimate was measured rather than read from a table
  WallTime measure_time = {};  // where measured: when; the zero time: not known
  uint32_t measured_transfers = 0;  // and by how many transfers; 0: by a probe
  // Where the path was measured to be slow and is taken to find out whether it still is: what was
  // measured.
  std::string tried_again = {};
  // Where the machine has several NUMA nodes: on which of them the slots are that the path goes
  // through, and why there; else empty.
  std::string placement = {};
  std::vector<Refusal> refused = {};  // every other path of the ladder, and why not

  size_t copies() const { return steps.size(); }
  friend bool operator==(const Plan&, const Plan&) = default;
};

// What one stream of a link carried.
struct LaneBytes {
  std::string device;  // local network device
  std::string peer;    // address of the far end
  uint64_t bytes = 0;

  friend bool operator==(const LaneBytes&, const LaneBytes&) = default;
};

struct ChecksumResult {
  std::string algorithm;  // "xxh3-128-tree": see docs/decisions/hash-tree.md
  // Of the destination's range, in hexadecimal. Of several buffers: of the parts' values, one after
  // the other in the order of the pairs; the algorithm then says so.
  std::string value;
  bool verified = false;  // whether it equalled the source's

  friend bool operator==(const ChecksumResult&, const ChecksumResult&) = default;
};

// One try at moving the bytes. `outcome` is "SUCCEEDED" or the reason of the failure.
struct Attempt {
  std::string path;
  std::string outcome;
  uint64_t bytes = 0;

  friend bool operator==(const Attempt&, const Attempt&) = default;
};

// What really happened.
struct Receipt {
  std::string path;
  std::string link;  // empty inside a node
  bool emulated = false;
  std::string registration = "none";
  std::string key = "none";
  std::string encryption = "none";  // on the wire, and by whom: "TLS 1.3, …, by daemon"
  std::vector<ExecutedStep> steps;  // one for each copy of the payload, in order
  std::vector<LaneBytes> lanes;
  double seconds = 0;  // from the first byte submitted to the last completion
  double bytes_per_second = 0;
  double negotiation_seconds = 0;  // from the request's acceptance to the first byte submitted
  // From the request to the end: by the daemon's clock since it accepted the request, or by the
  // client's since it submitted to its ring or began to copy by itself. 0 before the end.
  double asked_seconds = 0;
  std::optional<ChecksumResult> checksum;
  std::vector<Refusal> refused;  // why nothing better
  std::vector<Attempt> attempts;
  std::map<std::string, std::string> evidence;  // what the carrier itself says
  uint64_t ranges = 1;                          // as asked for
  uint64_t merged_ranges = 1;  // after joining those that are neighbours at both ends

  size_t copies() const { return steps.size(); }
  // For people, in lines: the path, then each copy, then the checksum. No line break at its end.
  std::string ToString() const;
};

// As ToString.
std::ostream& operator<<(std::ostream& out, const Receipt& receipt);

// Adds what `part` says to `whole`, which begins empty. Equal steps, lanes and attempts become one
// with the bytes of both (two equal steps or lanes of one part stay two), counters of the evidence
// add up, and a refusal of one path for one reason is kept once, in its newest words. Different
// paths are named one after the other: "tcp-direct,tcp-bounce". `seconds`, rates and `checksum` are
// left to the caller, which knows how the parts overlapped.
void MergeReceipt(const Receipt& part, Receipt& whole);

// kUnknown: a state that this library is too old to know.
enum class TransferState {
  kUnknown,
  kPending,
  kRunning,
  kSucceeded,
  kFailed,
  kCancelled,
  kUnconfirmed,
};

// "SUCCEEDED" and the like.
std::string_view StateName(TransferState state);

// Whether the state is a last one. UNCONFIRMED is not: it becomes the destination's state when the
// nodes meet again.
bool IsFinal(TransferState state);

// The part that the node asked has in a transfer.
enum class TransferRole { kUnknown, kDestination, kSource, kInitiator };

// "destination" and the like.
std::string_view RoleName(TransferRole role);

struct TransferInfo {
  TransferId id;
  TransferState state = TransferState::kPending;
  TransferRole role = TransferRole::kDestination;
  // Both ends in full; of ranges, from the first byte of any to the last; of several buffers, the
  // first pair's.
  Endpoint source;
  Endpoint destination;
  uint64_t source_buffers = 1;  // how many there are
  uint64_t destination_buffers = 1;
  uint64_t bytes = 0;
  uint64_t bytes_done = 0;  // arrived so far; up to a second late before the last state
  std::string owner;        // uid@node
  WallTime create_time;
  std::optional<WallTime> end_time;
  std::optional<Plan> plan;  // from RUNNING on
  Receipt receipt;           // complete once the transfer SUCCEEDED
  Status error;              // of FAILED, CANCELLED and UNCONFIRMED
  TransferId part_of;        // the series that it is a part of; parts are in no list
  uint64_t parts = 0;        // of a series, or of several buffers: how many it has had so far
  std::string waits_for;     // what keeps its bytes from moving just now; empty: nothing
  TraceContext trace;        // as the request had it
};

// OK for a transfer that SUCCEEDED, else the reason why it did not, under any state: a caller that
// waited for the end can return this.
Status OutcomeOf(const TransferInfo& transfer);

}  // namespace onecopy
