// Copies between files and GPU memory that a drive reads and writes itself, by a store that can do
// that.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "transport/core/contracts/copier.h"
#include "transport/core/contracts/store.h"

namespace onecopy {

// What is whole grains goes directly; what is none, at either end of the payload, through the
// file's ordinary way, a little host memory, and the GPU's own copies. Routes hold the memory
// attached, and complete where the direct file does.
class DirectFileCopier final : public Copier {
 public:
  // The copier between host memory and a GPU's; null: none.
  using FindCopier = std::function<Copier*(const Place& from, const Place& to)>;

  // `node` names this node in steps.
  DirectFileCopier(std::string node, FindCopier find_copier)
      : node_(std::move(node)), find_copier_(std::move(find_copier)) {}

  bool Copies(const Place& from, const Place& to) const override;
  // Fails as DirectFile::Attach, and with the reason why the file has no direct way.
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override;

 private:
  const std::string node_;
  const FindCopier find_copier_;
};

}  // namespace onecopy
