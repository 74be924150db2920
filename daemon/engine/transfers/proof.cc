#include "daemon/engine/transfers/proof.h"

#include <algorithm>
#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/core/contracts/store.h"

namespace onecopy::engine {

namespace {

// Of the first few, in words.
std::string Where(const std::vector<ByteRange>& wrong) {
  constexpr size_t kTold = 3;
  std::string text;
  for (size_t i = 0; i < std::min(kTold, wrong.size()); ++i) {
    text += (i == 0 ? ": the payload differs in " : ", ") + FormatBytes(wrong[i].bytes) +
            " from byte " + std::to_string(wrong[i].offset) + " on";
  }
  if (wrong.size() > kTold) text += ", and elsewhere";
  return text;
}

}  // namespace

Proof::Proof(Context& context, Checksums& checksums, Params params, Done done)
    : context_(context),
      checksums_(checksums),
      params_(std::move(params)),
      done_(std::move(done)) {}

void Proof::Start() {
  if (!params_.checksum) return Commit();
  if (params_.source) {
    const auto& [there, layout] = *params_.source;
    return checksums_.SumTree(there.region, {there.offset, there.bytes}, layout, params_.stop,
                              params_.payer,
                              [self = shared_from_this()](Result<digest::TreeSum> sum) {
                                self->SumHere(std::move(sum));
                              });
  }
  if (!params_.source_sum.root.empty()) return SumHere(std::move(params_.source_sum));
  SumHere(Status(Code::kUnavailable, reasons::kPeerDown,
                 "node " + params_.source_node + " did not answer with the source's checksum"));
}

void Proof::Stop() {
  if (params_.here != nullptr) params_.here->Stop();
}

void Proof::SumHere(Result<digest::TreeSum> source) {
  // Without the source's checksum, the destination's is useless: Compare reports the first.
  if (!source.ok() && params_.here == nullptr) return Compare(source, source);
  if (!source.ok()) params_.here->Stop();
  if (params_.here == nullptr) {
    params_.here = std::make_shared<DestinationSum>(checksums_, params_.payer, params_.destination);
    params_.here->Start();
    if (*params_.stop) params_.here->Stop();
  }
  params_.here->WhenKnown([self = shared_from_this(), source = std::move(source)](
                              const Result<digest::TreeSum>& sum) { self->Compare(source, sum); });
}

void Proof::Compare(const Result<digest::TreeSum>& source, const Result<digest::TreeSum>& here) {
  for (const Result<digest::TreeSum>* sum : {&source, &here}) {
    if (sum->ok()) continue;
    return End(sum->status().WithContext("the data was transferred, but its checksum is unknown"));
  }
  if (source->blocks.block_bytes == 0) {
    return End({Code::kUnavailable, reasons::kPeerIncompatible,
                "the data was transferred, but the onecopyd of node " + params_.source_node +
                    " computes another checksum",
                "install the same version on both nodes"});
  }
  const bool equal = source->root == here->root;
  sums_ = ChecksumResult{digest::kTreeAlgorithm, here->root, equal};
  if (equal) return Commit();
  wrong_ = digest::DifferingBlocks(source->blocks, here->blocks, params_.destination.payload());
  End({Code::kDataLoss, reasons::kChecksumMismatch,
       "the source's checksum is " + source->root + ", the destination's " + here->root +
           Where(wrong_),
       "check whether either end was changed meanwhile; if not, suspect memory or network"});
}

void Proof::Commit() {
  if (*params_.stop) {
    return End({Code::kCancelled, reasons::kCancelled, "stopped after the bytes had arrived"});
  }
  const auto& file = params_.destination.span.region->file();
  if (file == nullptr) return End(OkStatus());
  committing_ = true;
  // What is stopped too late for that has succeeded.
  file->Commit(params_.stop, [self = shared_from_this()](Status committed) {
    self->context_.loop.Post([self, committed = std::move(committed)] { self->End(committed); });
  });
}

void Proof::End(const Status& status) {
  params_.destination.span.region.reset();
  if (params_.source) params_.source->span.region.reset();
  std::exchange(done_, nullptr)(status, sums_);
}

}  // namespace onecopy::engine
