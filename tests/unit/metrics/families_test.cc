// Figures as Prometheus gets them.
#include "daemon/metrics/families.h"

#include <prometheus/text_serializer.h>

#include <sstream>

#include "tests/support/catch.h"
#include "tests/support/scrape.h"

using namespace onecopy;
using namespace onecopy::engine;
using onecopy::testing::Scrape;

namespace {

Scrape PageOf(const Figures& figures) {
  return Scrape(prometheus::TextSerializer().Serialize(metrics::FamiliesOf(figures)));
}

}  // namespace

TEST_CASE("classes have what is at most their bound, and the sums are right") {
  for (const auto& [nanoseconds, place] :
       std::vector<std::pair<int64_t, size_t>>{{-5, 0},
                                               {0, 0},
                                               {10'000, 0},
                                               {10'001, 1},
                                               {30'000, 1},
                                               {10'000'000'000, 12},
                                               {10'000'000'001, 13},
                                               {INT64_MAX, 13}}) {
    CAPTURE(nanoseconds);
    CHECK(DurationClasses::Of(std::chrono::nanoseconds(nanoseconds)) == place);
  }
  for (const auto& [bytes, place] :
       std::vector<std::pair<uint64_t, size_t>>{{0, 0},
                                                {1, 0},
                                                {1024, 0},
                                                {1025, 1},
                                                {4096, 1},
                                                {4097, 2},
                                                {16'384, 2},
                                                {16'385, 3},
                                                {uint64_t{64} << 30, 13},
                                                {(uint64_t{64} << 30) + 1, 14},
                                                {UINT64_MAX, 14}}) {
    CAPTURE(bytes);
    CHECK(SizeClasses::Of(bytes) == place);
  }
  Figures figures;
  for (const int64_t microseconds : {5, 10, 20, 20'000'000}) {
    figures.transfers.durations["local"].Note(std::chrono::microseconds(microseconds));
  }
  figures.transfers.sizes.Note(4096);
  figures.transfers.sizes.Note(1);
  const Scrape page = PageOf(figures);
  const std::string name = "onecopy_transfer_duration_seconds";
  CHECK(page.Sum(name + "_bucket", {{"path", "local"}, {"le", "1e-05"}}) == 2);
  CHECK(page.Sum(name + "_bucket", {{"path", "local"}, {"le", "10"}}) == 3);
  CHECK(page.Sum(name + "_bucket", {{"path", "local"}, {"le", "+Inf"}}) == 4);
  CHECK(page.Sum(name + "_count", {{"path", "local"}}) == 4);
  CHECK(page.Sum(name + "_sum", {{"path", "local"}}) == Approx(20.000035));
  CHECK(page.Sum("onecopy_transfer_size_bytes_bucket", {{"le", "1024"}}) == 1);
  CHECK(page.Sum("onecopy_transfer_size_bytes_bucket", {{"le", "4096"}}) == 2);
  CHECK(page.Sum("onecopy_transfer_size_bytes_sum") == 4097);
}

TEST_CASE("what there is none of has its family all the same") {
  const Scrape page = PageOf(Figures());
  for (const char* name : {"onecopy_failovers_total", "onecopy_probe_bytes_per_second",
                           "onecopy_buffers", "onecopy_certificate_expiry_timestamp_seconds"}) {
    CAPTURE(name);
    CHECK(page.families().contains(name));
    CHECK_FALSE(page.Has(name));
  }
  CHECK(page.Sum("onecopy_peers") == 0);
  CHECK(page.Has("onecopy_peers", {{"state", "CONNECTED"}}));
}

TEST_CASE("figures become series with their labels") {
  Figures figures;
  figures.node = "east";
  figures.transfers.copies[1] = {3, 300};
  figures.transfers.copies[5] = {2, 900};
  figures.transfers.worse[{5, "tcp-staged", "rdma-direct", "NO_RDMA_DEVICE"}] = {2, 900};
  figures.transfers.failovers[{"rdma-direct", "tcp-direct"}] = 1;
  figures.send_slots = {32, 30, 4, 77, {}};
  figures.buffers.buffers[{"cuda", "GPU-5f", true}] = {2, 8192};
  figures.peers.by_state[NodeState::kConnected] = 1;
  figures.peers.peers.push_back({"west", true, 1.5, 7});
  figures.peers.peers.back().silent_addresses = {"10.0.2.2:7702"};
  figures.probes[{"verbs", "west", "cuda-host"}] = 5e9;
  figures.quotas.push_back({"buffers", 2, 100, 1});
  const WallTime soon{std::chrono::seconds(1000)};
  figures.expiries = {{"the certificate", "a.pem", {}, soon + std::chrono::hours(1)},
                      {"the certificate", "b.pem", {}, soon}};
  const Scrape page = PageOf(figures);
  CHECK(page.Sum("onecopy_transfer_copies_count") == 5);
  CHECK(page.Sum("onecopy_transfer_copies_sum") == 13);
  CHECK(page.Sum("onecopy_transfer_copies_bucket", {{"le", "1"}}) == 3);
  CHECK(page.Sum("onecopy_payload_bytes_total", {{"copies", "5"}}) == 900);
  CHECK(page.Sum("onecopy_worse_path_bytes_total", {{"copies", "5"},
                                                    {"path", "tcp-staged"},
                                                    {"best", "rdma-direct"},
                                                    {"reason", "NO_RDMA_DEVICE"}}) == 900);
  CHECK(page.Sum("onecopy_failovers_total", {{"from", "rdma-direct"}, {"to", "tcp-direct"}}) == 1);
  CHECK(page.Sum("onecopy_staging_slots", {{"purpose", "send"}, {"state", "used"}}) == 2);
  CHECK(page.Sum("onecopy_staging_waiting", {{"purpose", "send"}}) == 4);
  CHECK(page.Sum("onecopy_registered_bytes", {{"UUID", "GPU-5f"}, {"origin", "client"}}) == 8192);
  CHECK(page.Sum("onecopy_peer_connected", {{"peer", "west"}}) == 1);
  CHECK(page.Sum("onecopy_slow_transfers_total", {{"peer", "west"}}) == 7);
  CHECK(page.Sum("onecopy_peer_silent_addresses", {{"peer", "west"}}) == 1);
  CHECK(page.Sum("onecopy_probe_bytes_per_second", {{"memory", "cuda-host"}}) == 5e9);
  CHECK(page.Sum("onecopy_quota_refusals_total", {{"what", "buffers"}}) == 1);
  CHECK(page.Sum("onecopy_certificate_expiry_timestamp_seconds") == 1000);
}

TEST_CASE("a page of everything that can be told apart is less than 1 MB") {
  Figures figures;
  TransferFigures& transfers = figures.transfers;
  const auto name = [](size_t i, size_t bytes) {
    const std::string number = std::to_string(i);
    return number + std::string(bytes - number.size(), 'x');
  };
  constexpr size_t kName = 63;  // of a node
  constexpr size_t kPath = 26;  // "storage-direct+peer-direct"
  constexpr size_t kReason = 20;
  constexpr uint64_t kLarge = uint64_t{1} << 50;
  for (size_t i = 0; i < kMaxBytesTold; ++i) {
    transfers.bytes[{"storage-bounce+rdma-staged", "verbs", name(i, kName), Direction::kOut}] =
        kLarge + i;
  }
  for (size_t i = 0; i < kMaxEndsTold; ++i) {
    transfers
        .ended[{name(i, kPath), Direction::kInside, TransferState::kSucceeded, name(i, kReason)}] =
        kLarge;
  }
  for (size_t i = 0; i < kMaxWorseTold; ++i) {
    transfers.worse[{5, name(i, kPath), name(i, kPath), name(i, kReason)}] = {kLarge, kLarge};
  }
  for (size_t i = 0; i < kMaxRefusalsTold; ++i) {
    transfers.refusals[{name(i, kPath), name(i, kReason)}] = kLarge;
  }
  for (size_t i = 0; i < kMaxFailoversTold; ++i) {
    transfers.failovers[{name(i, kPath), name(i, kPath)}] = kLarge;
  }
  for (size_t i = 0; i < kMaxReasonsTold; ++i) transfers.requests_refused[name(i, kReason)] = 1;
  for (size_t i = 0; i < 28; ++i) transfers.durations[name(i, kPath)].Note({});
  for (size_t i = 0; i < kMaxPeersTold; ++i) {
    figures.peers.peers.push_back({name(i, kName), true, 1.0 / 3, 12'345});
  }
  for (size_t i = 0; i < kMaxProbesTold; ++i) {
    figures.probes[{"verbs", name(i, kName), "cuda-cuda"}] = 1e11 / 3;
  }
  const Scrape page = PageOf(figures);
  CHECK(page.text().size() < 1'000'000);
  CHECK(page.series() > 6000);
}
