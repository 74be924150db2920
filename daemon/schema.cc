#include "daemon/schema.h"

#include <vector>

#include "transport/core/toolkit/rdma_settings.h"

namespace onecopy {
namespace {

template <typename Interface>
void AddTo(config::Schema& schema, const std::vector<Backend<Interface>>& backends) {
  for (const Backend<Interface>& backend : backends) {
    schema.backends[backend.name] = backend.settings;
    if (backend.rdma) schema.backends["rdma"] = RdmaSettings();
    if (!backend.library.empty()) schema.libraries.push_back(backend.library);
  }
}

}  // namespace

config::Schema SchemaOf(const Backends& backends) {
  config::Schema schema;
  AddTo(schema, backends.memories);
  AddTo(schema, backends.links);
  AddTo(schema, backends.stores);
  return schema;
}

}  // namespace onecopy
