#include "client/cli/peer_notice.h"

#include <algorithm>
#include <chrono>

#include "client/cli/output/escape.h"
#include "client/cli/output/progress.h"
#include "onecopy/reasons.h"

namespace onecopy::cli {
namespace {

// Together less than a second.
constexpr std::chrono::milliseconds kStill{500};
constexpr std::chrono::milliseconds kPatience{400};

// Whether it was that node itself that answered, be it with a refusal.
bool Answered(const Status& status) {
  return status.code() != Code::kDeadlineExceeded && status.code() != Code::kUnavailable;
}

}  // namespace

PeerNotice::PeerNotice(Client& client, const std::vector<ParsedEndpoint>& ends, std::ostream& err,
                       bool shown)
    : client_(client), err_(err) {
  for (const ParsedEndpoint& end : ends) {
    const bool other =
        end.kind == ParsedEndpoint::Kind::kBuffer && !end.node.empty() && end.node != client.node();
    const bool known = std::any_of(peers_.begin(), peers_.end(),
                                   [&](const Peer& peer) { return peer.node == end.node; });
    if (shown && other && !known) peers_.push_back({end.node, end.name});
  }
  if (!peers_.empty()) thread_ = std::jthread([this](const std::stop_token& stop) { Run(stop); });
}

PeerNotice::~PeerNotice() = default;

void PeerNotice::Progress(uint64_t bytes_done) { bytes_done_ = bytes_done; }

void PeerNotice::Run(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  uint64_t seen = 0;
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex);
      wake.wait_for(lock, stop, kStill, [] { return false; });
    }
    const uint64_t now = bytes_done_;
    if (std::exchange(seen, now) != now) continue;
    for (Peer& peer : peers_) Ask(peer, stop);
  }
}

void PeerNotice::Ask(Peer& peer, const std::stop_token& stop) {
  const Status said = client_.GetBuffer(peer.node, peer.buffer, stop, kPatience).status();
  if (stop.stop_requested() || said.reason() == reasons::kDaemonUnreachable) return;
  const bool silent = !Answered(said);
  if (silent == peer.silent) return;
  peer.silent = silent;
  const std::string clear = StderrIsTerminal() ? "\r\x1b[K" : "";
  std::string line = "onecopy: node " + Printable(peer.node);
  if (!silent) {
    line += " answers again";
  } else {
    line += " does not answer";
    if (said.code() == Code::kUnavailable) line += " (" + Printable(said.message()) + ")";
    line += "; waiting for it, Ctrl-C ends this";
  }
  err_ << clear + line + "\n" << std::flush;
}

}  // namespace onecopy::cli
