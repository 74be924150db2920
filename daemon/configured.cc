#include "daemon/configured.h"

#include <utility>

#include "transport/topology/topology_file.h"

namespace onecopy {

tls::Files FilesOf(const config::Tls& tls) { return {tls.ca, tls.certificate, tls.key, tls.crl}; }

Result<config::Config> ReadConfig(const CommandLine& line, const config::Schema& schema) {
  config::Config config = config::Defaults(schema);
  if (!line.config_file.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(config, config::Load(line.config_file, schema));
  }
  ONECOPY_RETURN_IF_ERROR(config::Apply(line.overrides, config));
  ONECOPY_RETURN_IF_ERROR(config::CheckSecurity(config));
  return config;
}

Result<Configured> Configure(const CommandLine& line, const config::Schema& schema) {
  Configured configured;
  ONECOPY_ASSIGN_OR_RETURN(configured.config, ReadConfig(line, schema));
  const config::Config& config = configured.config;
  if (config.tls.enabled()) {
    ONECOPY_ASSIGN_OR_RETURN(configured.trust, tls::Trust::Open(FilesOf(config.tls), config.name));
  }
  if (!config.topology.empty()) {
    ONECOPY_ASSIGN_OR_RETURN(configured.topology, LoadTopologyFile(config.topology));
  }
  return configured;
}

}  // namespace onecopy
