// Copies between files and memory, by whatever store has the file.
#pragma once

#include <memory>
#include <string>

#include "transport/core/contracts/copier.h"
#include "transport/core/contracts/store.h"

namespace onecopy {

// Between a file and host memory, either way. Its routes complete where their file does.
class FileCopier final : public Copier {
 public:
  // `node` names this node in steps.
  explicit FileCopier(std::string node) : node_(std::move(node)) {}

  bool Copies(const Place& from, const Place& to) const override;
  Result<std::unique_ptr<CopyRoute>> Prepare(const RegionRef& from, const RegionRef& to) override;
  bool prepares_at_once() const override { return true; }

 private:
  const std::string node_;
};

// A file as a place of a transfer.
std::unique_ptr<Region> RegionOf(std::shared_ptr<StoreFile> file,
                                 std::shared_ptr<const DirectWay> direct = nullptr);

// The steps of such a pass between a file and the memory of that name.
std::vector<Step> StepsOf(FilePass pass, FileUse use, const std::string& node,
                          const std::string& memory);

}  // namespace onecopy
