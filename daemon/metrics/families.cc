#include "daemon/metrics/families.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace onecopy::metrics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<ClientMetric::Label>;

// A family while it is filled.
class Family {
 public:
  Family(MetricType type, std::string name, std::string help) {
    family_.type = type;
    family_.name = std::move(name);
    family_.help = std::move(help);
  }

  void Add(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    (family_.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    family_.metric.push_back(std::move(metric));
  }
  void Add(Labels labels, uint64_t value) { Add(std::move(labels), static_cast<double>(value)); }

  void Add(Labels labels, const DurationHistogram& durations) {
    ClientMetric::Histogram& histogram = AddHistogram(std::move(labels));
    for (size_t i = 0; i < kDurationClasses; ++i) {
      const bool last = i == DurationClasses::kBounds.size();
      AddBucket(histogram, durations.counts[i],
                last ? kInfinity : Seconds(DurationClasses::kBounds[i]));
    }
    histogram.sample_sum = Seconds(durations.sum);
  }
  void Add(Labels labels, const SizeHistogram& sizes) {
    ClientMetric::Histogram& histogram = AddHistogram(std::move(labels));
    for (size_t i = 0; i < kSizeClasses; ++i) {
      const bool last = i == SizeClasses::kBoundCount;
      AddBucket(histogram, sizes.counts[i],
                last ? kInfinity : static_cast<double>(SizeClasses::Bound(i)));
    }
    histogram.sample_sum = static_cast<double>(sizes.sum);
  }
  // Of small whole numbers: one bucket each.
  void Add(Labels labels, const std::map<uint32_t, engine::TransferFigures::Amount>& amounts,
           uint32_t most) {
    ClientMetric::Histogram& histogram = AddHistogram(std::move(labels));
    for (uint32_t i = 0; i <= most; ++i) {
      const auto found = amounts.find(i);
      const uint64_t count = found == amounts.end() ? 0 : found->second.transfers;
      AddBucket(histogram, count, i == most ? kInfinity : i);
      histogram.sample_sum += static_cast<double>(count * i);
    }
  }

  MetricFamily Take() { return std::move(family_); }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  template <typename Number>
  static double Seconds(Number nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e9;
  }
  ClientMetric::Histogram& AddHistogram(Labels labels) {
    ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    return metric.histogram;
  }
  static void AddBucket(ClientMetric::Histogram& histogram, uint64_t count, double bound) {
    histogram.sample_count += count;
    ClientMetric::Bucket bucket;
    bucket.cumulative_count = histogram.sample_count;
    bucket.upper_bound = bound;
    histogram.bucket.push_back(bucket);
  }

  MetricFamily family_;
};

Family Counter(std::string name, std::string help) {
  return {MetricType::Counter, std::move(name), std::move(help)};
}
Family Gauge(std::string name, std::string help) {
  return {MetricType::Gauge, std::move(name), std::move(help)};
}
Family HistogramOf(std::string name, std::string help) {
  return {MetricType::Histogram, std::move(name), std::move(help)};
}

MetricFamily One(Family family, double value) {
  family.Add({}, value);
  return family.Take();
}

using Families = std::vector<MetricFamily>;
using engine::Figures;
using engine::TransferFigures;

std::string Word(std::string_view text) { return std::string(text); }

double UnixSeconds(WallTime time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

void AddDaemon(const Figures& figures, Families& families) {
  Family build = Gauge("onecopy_build_info", "1; the labels say which node and version this is.");
  build.Add({{"node", figures.node}, {"version", figures.version}}, 1.0);
  families.push_back(build.Take());
  families.push_back(
      One(Gauge("onecopy_start_time_seconds", "When the daemon started, in Unix time."),
          UnixSeconds(figures.start_time)));
  families.push_back(One(Gauge("onecopy_draining", "1 while the daemon takes no new transfers."),
                         figures.draining ? 1 : 0));
  families.push_back(One(Gauge("onecopy_holder_lost",
                               "1 while [restart] holder is set and no holder answers: buffers "
                               "would not survive a restart."),
                         figures.holder_lost ? 1 : 0));
  Family expiry =
      Gauge("onecopy_certificate_expiry_timestamp_seconds",
            "When the first certificate or revocation list of this kind expires, in Unix time.");
  std::map<std::string, WallTime> first;
  for (const Expiry& one : figures.expiries) {
    const auto [place, added] = first.try_emplace(one.what, one.expire_time);
    if (!added) place->second = std::min(place->second, one.expire_time);
  }
  for (const auto& [what, when] : first) expiry.Add({{"what", what}}, UnixSeconds(when));
  families.push_back(expiry.Take());
}

void AddDiscovery(const Figures& figures, Families& families) {
  families.push_back(One(Gauge("onecopy_name_conflicts",
                               "Names that two daemons have at the same time, as far as this "
                               "daemon knows."),
                         static_cast<double>(figures.conflicts.size())));
  const DiscoveryInfo discovery = figures.discovery.value_or(DiscoveryInfo());
  families.push_back(
      One(Gauge("onecopy_discovery_working", "1 if the last attempt to discover nodes succeeded."),
          discovery.viability.viable ? 1 : 0));
  families.push_back(
      One(Gauge("onecopy_discovery_answer_timestamp_seconds",
                "When the last good answer of etcd or DNS came, in Unix time; 0: there was none."),
          discovery.answer_time ? UnixSeconds(*discovery.answer_time) : 0));
  Family entries = Gauge("onecopy_discovery_entries", "Discovered entries, by what they are.");
  entries.Add({{"state", "peer"}}, discovery.peers);
  entries.Add({{"state", "stranger"}}, discovery.strangers);
  entries.Add({{"state", "refused"}}, discovery.refused);
  families.push_back(entries.Take());
}

void AddTransfers(const TransferFigures& transfers, Families& families) {
  Family ended = Counter("onecopy_transfers_total", "Transfers that have ended.");
  for (const auto& [key, count] : transfers.ended) {
    ended.Add({{"path", key.path},
               {"direction", Word(DirectionName(key.direction))},
               {"outcome", Word(StateName(key.outcome))},
               {"reason", key.reason}},
              count);
  }
  families.push_back(ended.Take());
  Family refused =
      Counter("onecopy_transfer_requests_refused_total",
              "Requests of this node's clients that were refused before they became transfers.");
  for (const auto& [reason, count] : transfers.requests_refused) {
    refused.Add({{"reason", reason}}, count);
  }
  families.push_back(refused.Take());
  Family bytes = Counter("onecopy_transfer_bytes_total", "Payload bytes that have arrived.");
  for (const auto& [key, count] : transfers.bytes) {
    bytes.Add({{"path", key.path},
               {"link", key.link},
               {"peer", key.peer},
               {"direction", Word(DirectionName(key.direction))}},
              count);
  }
  families.push_back(bytes.Take());
  Family lanes = Counter("onecopy_lane_bytes_total",
                         "Payload bytes that arrived from other nodes, by this node's network "
                         "device; not of rings' transfers.");
  for (const auto& [key, count] : transfers.lanes) {
    lanes.Add({{"link", key.link}, {"device", key.device}}, count);
  }
  families.push_back(lanes.Take());
  Family durations = HistogramOf("onecopy_transfer_duration_seconds",
                                 "Time from the request to the end, of transfers that succeeded.");
  for (const auto& [path, histogram] : transfers.durations) {
    durations.Add({{"path", path}}, histogram);
  }
  families.push_back(durations.Take());
  Family negotiations = HistogramOf(
      "onecopy_transfer_negotiation_seconds",
      "Time from the acceptance of a transfer to its first byte, without transfers by rings.");
  negotiations.Add({}, transfers.negotiations);
  families.push_back(negotiations.Take());
  Family sizes =
      HistogramOf("onecopy_transfer_size_bytes", "Payload size of transfers that succeeded.");
  sizes.Add({}, transfers.sizes);
  families.push_back(sizes.Take());
}

void AddPaths(const TransferFigures& transfers, Families& families) {
  constexpr uint32_t kMostCopies = 9;
  Family copies =
      HistogramOf("onecopy_transfer_copies", "Copies of the payload, of transfers that succeeded.");
  copies.Add({}, transfers.copies, kMostCopies);
  families.push_back(copies.Take());
  Family payload = Counter("onecopy_payload_bytes_total",
                           "Payload bytes, by the number of copies that each byte took.");
  for (const auto& [count, amount] : transfers.copies) {
    payload.Add({{"copies", std::to_string(count)}}, amount.bytes);
  }
  families.push_back(payload.Take());
  Family worse_bytes =
      Counter("onecopy_worse_path_bytes_total",
              "Payload bytes that took `path` because the better path `best` was refused.");
  Family worse_transfers =
      Counter("onecopy_worse_path_transfers_total",
              "Transfers that took `path` because the better path `best` was refused.");
  for (const auto& [key, amount] : transfers.worse) {
    const Labels labels = {{"copies", std::to_string(key.copies)},
                           {"path", key.path},
                           {"best", key.best},
                           {"reason", key.reason}};
    worse_bytes.Add(labels, amount.bytes);
    worse_transfers.Add(labels, amount.transfers);
  }
  families.push_back(worse_bytes.Take());
  families.push_back(worse_transfers.Take());
  Family refusals = Counter("onecopy_path_refusals_total",
                            "How often a path was refused that is better than the path taken.");
  for (const auto& [key, count] : transfers.refusals) {
    refusals.Add({{"path", key.path}, {"reason", key.reason}}, count);
  }
  families.push_back(refusals.Take());
  Family failovers =
      Counter("onecopy_failovers_total",
              "Transfers that continued by another path after their first path failed.");
  for (const auto& [key, count] : transfers.failovers) {
    failovers.Add({{"from", key.from}, {"to", key.to}}, count);
  }
  families.push_back(failovers.Take());
}

void AddSlots(const Figures& figures, Families& families) {
  Family slots = Gauge("onecopy_staging_slots", "Staging slots of the daemon.");
  Family given = Counter("onecopy_staging_slots_given_total", "Staging slots given to transfers.");
  Family waiting =
      Gauge("onecopy_staging_waiting", "Transfers that wait for their first staging slot.");
  Family waits = HistogramOf("onecopy_staging_wait_seconds",
                             "How long transfers waited for their first staging slot.");
  for (const auto& [purpose, half] :
       {std::pair<std::string, const engine::SlotFigures&>("send", figures.send_slots),
        {"receive", figures.receive_slots}}) {
    slots.Add({{"purpose", purpose}, {"state", "free"}}, uint64_t{half.free});
    slots.Add({{"purpose", purpose}, {"state", "used"}}, uint64_t{half.slots - half.free});
    given.Add({{"purpose", purpose}}, half.given);
    waiting.Add({{"purpose", purpose}}, uint64_t{half.waiting});
    waits.Add({{"purpose", purpose}}, half.waits);
  }
  families.push_back(slots.Take());
  families.push_back(given.Take());
  families.push_back(waiting.Take());
  families.push_back(waits.Take());
}

void AddBuffers(const Figures& figures, Families& families) {
  Family buffers = Gauge("onecopy_buffers", "Buffers, without views.");
  Family bytes = Gauge("onecopy_registered_bytes", "Bytes in buffers, without views.");
  for (const auto& [key, amount] : figures.buffers.buffers) {
    Labels labels = {{"memory", key.memory}, {"origin", key.registered ? "client" : "daemon"}};
    if (!key.device.empty()) labels.push_back({"UUID", key.device});
    buffers.Add(labels, amount.transfers);
    bytes.Add(labels, amount.bytes);
  }
  families.push_back(buffers.Take());
  families.push_back(bytes.Take());
  const auto gauge = [&](const char* name, const char* help, uint64_t value) {
    families.push_back(One(Gauge(name, help), static_cast<double>(value)));
  };
  gauge("onecopy_views", "Views: names for parts of buffers.", figures.buffers.views);
  gauge("onecopy_transfers_running", "Running transfers, without transfers by rings.",
        figures.running);
  gauge("onecopy_sessions", "Sessions of clients.", figures.sessions);
  gauge("onecopy_rings", "Rings of clients.", figures.rings);
  gauge("onecopy_ring_routes", "Routes of rings.", figures.ring_routes);
  gauge("onecopy_mappings", "Mappings: buffers that clients use in place.", figures.mappings);
}

void AddQuotas(const Figures& figures, Families& families) {
  Family used = Gauge("onecopy_quota_used", "What all users together use of a limited resource.");
  Family limit =
      Gauge("onecopy_quota_limit", "What all users together may use of a limited resource.");
  Family refusals =
      Counter("onecopy_quota_refusals_total",
              "Requests refused because a limit was reached, of one user or of all together.");
  for (const engine::QuotaFigures& quota : figures.quotas) {
    const Labels labels = {{"what", quota.what}};
    used.Add(labels, quota.used);
    limit.Add(labels, quota.limit);
    refusals.Add(labels, quota.refused);
  }
  families.push_back(used.Take());
  families.push_back(limit.Take());
  families.push_back(refusals.Take());
}

void AddPeers(const Figures& figures, Families& families) {
  Family states = Gauge("onecopy_peers", "Known peers, by state.");
  for (const NodeState state : {NodeState::kConnected, NodeState::kDisconnected,
                                NodeState::kIncompatible, NodeState::kDraining}) {
    const auto found = figures.peers.by_state.find(state);
    const uint64_t count = found == figures.peers.by_state.end() ? 0 : found->second;
    states.Add({{"state", Word(NodeStateName(state))}}, count);
  }
  Family connected = Gauge("onecopy_peer_connected", "1 if the peer answers.");
  Family silence =
      Gauge("onecopy_peer_silence_seconds", "Time since the peer's last answer to a heartbeat.");
  Family slow =
      Counter("onecopy_slow_transfers_total",
              "Alarms: transfers from this peer that were far slower than measured before.");
  slow.Add({{"peer", figures.node}}, figures.slow_transfers_inside);
  Family silent = Gauge("onecopy_peer_silent_addresses",
                        "Addresses of this peer for payload that do not answer, while others do.");
  for (const engine::PeerFigures& peer : figures.peers.peers) {
    connected.Add({{"peer", peer.name}}, peer.connected ? 1.0 : 0.0);
    silence.Add({{"peer", peer.name}}, peer.silent_seconds);
    slow.Add({{"peer", peer.name}}, peer.slow_transfers);
    silent.Add({{"peer", peer.name}}, static_cast<double>(peer.silent_addresses.size()));
  }
  families.push_back(states.Take());
  families.push_back(connected.Take());
  families.push_back(silence.Take());
  families.push_back(slow.Take());
  families.push_back(silent.Take());
}

void AddProbes(const Figures& figures, Families& families) {
  Family probes = Counter("onecopy_probes_total", "Probes with a result.");
  probes.Add({{"outcome", "measured"}}, figures.probes_succeeded);
  probes.Add({{"outcome", "failed"}}, figures.probes_failed);
  families.push_back(probes.Take());
  Family rates = Gauge("onecopy_probe_bytes_per_second",
                       "Rate of the last probes from this peer over all lanes, between the fastest "
                       "devices of these kinds of memory.");
  for (const auto& [key, rate] : figures.probes) {
    rates.Add({{"link", key.link}, {"peer", key.peer}, {"memory", key.memory}}, rate);
  }
  families.push_back(rates.Take());
}

}  // namespace

std::vector<MetricFamily> FamiliesOf(const Figures& figures) {
  Families families;
  AddDaemon(figures, families);
  AddDiscovery(figures, families);
  AddTransfers(figures.transfers, families);
  AddPaths(figures.transfers, families);
  AddSlots(figures, families);
  AddBuffers(figures, families);
  AddQuotas(figures, families);
  AddPeers(figures, families);
  AddProbes(figures, families);
  return families;
}

std::vector<MetricFamily> FamiliesOf(const ProcessFigures& process) {
  Families families;
  families.push_back(One(Gauge("onecopy_engine_answered",
                               "0 if the daemon's engine did not answer in time; this scrape then "
                               "lacks the engine's figures."),
                         process.engine_answered ? 1 : 0));
  families.push_back(One(Counter("onecopy_log_records_dropped_total",
                                 "Log records dropped because the reader of the log was too slow."),
                         static_cast<double>(process.log_records_dropped)));
  families.push_back(One(Counter("onecopy_audit_records_dropped_total",
                                 "Audit records dropped because a caller exceeded its allowance, "
                                 "or the audit log's file was too slow."),
                         static_cast<double>(process.audit_records_dropped)));
  Family scrapes = Counter("onecopy_scrapes_total", "Requests to this page, by how they ended.");
  scrapes.Add({{"outcome", "served"}}, process.scrapes.served);
  scrapes.Add({{"outcome", "refused"}}, process.scrapes.refused);
  scrapes.Add({{"outcome", "broken"}}, process.scrapes.broken);
  families.push_back(scrapes.Take());
  families.push_back(One(Counter("process_cpu_seconds_total", "Processor time of the daemon."),
                         process.cpu_seconds));
  const auto gauge = [&](const char* name, const char* help, uint64_t value) {
    families.push_back(One(Gauge(name, help), static_cast<double>(value)));
  };
  gauge("process_resident_memory_bytes", "Memory of the daemon that is in RAM.",
        process.resident_bytes);
  gauge("process_open_fds", "Descriptors that are open.", process.open_files);
  gauge("process_max_fds", "How many may be open.", process.max_files);
  return families;
}

}  // namespace onecopy::metrics
