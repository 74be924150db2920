#include "daemon/engine/probing/path_rates.h"

#include <algorithm>

namespace onecopy::engine {
namespace {

using std::chrono::duration;

constexpr size_t kMaxWays = 4096;
constexpr size_t kMaxSamples = 5;
constexpr size_t kUsualSamples = 3;
constexpr std::chrono::hours kForgotten{6};
// Sooner nothing is tried again, and longer than that nothing is saved up.
constexpr std::chrono::seconds kMinTrialPause{30};
constexpr std::chrono::minutes kMaxTrialPause{10};

}  // namespace

bool PathRates::Counts(const Sample& sample) const {
  return sample.bytes_per_second > 0 && clock_() - sample.when < kForgotten;
}

void PathRates::Note(const std::string& node, const plan::PathKey& way, uint64_t bytes,
                     double seconds) {
  if (bytes < plan::kMinMeasuredBytes || seconds <= 0) return;
  const Key key{node, way};
  if (!entries_.contains(key)) MakeRoom();
  Entry& entry = entries_[key];
  const Sample sample{static_cast<double>(bytes) / seconds, clock_(),
                      std::chrono::system_clock::now()};
  entry.gone = sample.when;
  SizeClass& rates = entry.classes[plan::SizeClassOf(bytes)];
  std::erase_if(rates.samples, [this](const Sample& one) { return !Counts(one); });
  if (rates.samples.size() >= kMaxSamples) rates.samples.erase(rates.samples.begin());
  rates.samples.push_back(sample);
  if (rates.samples.size() < kUsualSamples) return;
  Sample median = sample;
  median.bytes_per_second = RateOf(rates).bytes_per_second;
  const bool better = median.bytes_per_second >= rates.best.bytes_per_second;
  if (better || !Counts(rates.best)) rates.best = median;
}

void PathRates::MakeRoom() {
  if (entries_.size() < kMaxWays) return;
  entries_.erase(
      std::min_element(entries_.begin(), entries_.end(),
                       [](const auto& a, const auto& b) { return a.second.gone < b.second.gone; }));
}

void PathRates::TriedAgain(const std::string& node, const plan::PathKey& way) {
  const auto found = entries_.find({node, way});
  if (found != entries_.end()) found->second.gone = clock_();
}

// What disturbs a transfer makes it slower and never faster: of two the faster one counts.
plan::PathRate PathRates::RateOf(const SizeClass& rates) const {
  std::vector<double> made;
  plan::PathRate rate;
  for (const Sample& sample : rates.samples) {
    if (!Counts(sample)) continue;
    made.push_back(sample.bytes_per_second);
    rate.time = sample.time;
  }
  if (made.empty()) return rate;
  std::sort(made.begin(), made.end());
  rate.bytes_per_second = made[made.size() / 2];
  rate.transfers = static_cast<uint32_t>(made.size());
  return rate;
}

void PathRates::AddTo(plan::Estimates& estimates, const std::string& node) const {
  for (auto at = entries_.lower_bound({node, {}}); at != entries_.end(); ++at) {
    const auto& [key, entry] = *at;
    if (key.first != node) break;
    const os::Clock::duration since = clock_() - entry.gone;
    const double spare =
        since < kMinTrialPause
            ? 0
            : share_ *
                  duration<double>(std::min<os::Clock::duration>(since, kMaxTrialPause)).count();
    plan::PathRates rates;
    for (size_t i = 0; i < rates.size(); ++i) {
      rates[i] = RateOf(entry.classes[i]);
      rates[i].spare_seconds = spare;
    }
    estimates.MeasuredPath(key.second, rates);
  }
}

std::optional<PathRates::Usual> PathRates::UsualOf(const std::string& node,
                                                   const plan::PathKey& way, uint64_t bytes) const {
  const auto found = entries_.find({node, way});
  if (found == entries_.end()) return {};
  const auto& classes = found->second.classes;
  const Sample* usual = &classes[plan::SizeClassOf(bytes)].best;
  if (!Counts(*usual)) {
    usual = nullptr;
    for (const SizeClass& rates : classes) {
      const bool slower = usual == nullptr || rates.best.bytes_per_second < usual->bytes_per_second;
      if (Counts(rates.best) && slower) usual = &rates.best;
    }
  }
  if (usual == nullptr) return {};
  return Usual{usual->bytes_per_second, usual->time};
}

std::vector<PathRateInfo> PathRates::Describe(const std::string& node) const {
  std::vector<PathRateInfo> all;
  for (auto at = entries_.lower_bound({node, {}}); at != entries_.end(); ++at) {
    const auto& [key, entry] = *at;
    if (key.first != node) break;
    for (size_t i = 0; i < entry.classes.size(); ++i) {
      const plan::PathRate rate = RateOf(entry.classes[i]);
      if (rate.transfers == 0) continue;
      const plan::PathKey& way = key.second;
      PathRateInfo& info = all.emplace_back();
      info.path = way.path;
      info.link = way.link;
      info.source_memory = way.source.kind;
      info.source_device = way.source.device;
      info.destination_memory = way.destination.kind;
      info.destination_device = way.destination.device;
      info.source_staged = way.source_staged;
      info.destination_staged = way.destination_staged;
      info.least_bytes = plan::kSizeClasses[i];
      info.bytes_per_second = rate.bytes_per_second;
      info.transfers = rate.transfers;
      info.time = rate.time;
    }
  }
  return all;
}

void PathRates::LinkChanged(const std::string& link) {
  std::erase_if(entries_, [&link](const auto& e) { return e.first.second.link == link; });
}

void PathRates::PeerRestarted(const std::string& node) {
  std::erase_if(entries_, [&node](const auto& e) { return e.first.first == node; });
}

}  // namespace onecopy::engine
