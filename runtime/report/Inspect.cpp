//===- Inspect.cpp - The numbers of a plan --------------------------------===//

#include "dtrt/report/Inspect.h"

#include "LossReport.h"
#include "PeakParts.h"
#include "ReportText.h"

#include "dtrt/format/Features.h"
#include "dtrt/report/DeviceTraffic.h"
#include "dtrt/report/OutputFormat.h"

#include <nlohmann/json.hpp>

#include <iomanip>
#include <ostream>

namespace dtrt {

namespace {

using Json = nlohmann::ordered_json;

uint64_t countTensors(const PlanCommon &common) {
  uint64_t tensors = 0;
  for (const Family &family : common.families)
    tensors += uint64_t(family.numMembers());
  return tensors;
}

Json proofJson(const PlanSummary &summary) {
  Json proof = Json::object();
  auto add = [&](const char *key, const std::string &value) {
    if (!value.empty())
      proof[key] = value;
  };
  add("coverage", summary.coverage);
  add("deadlock_free", summary.deadlockFree);
  add("memory_safe", summary.memorySafe);
  add("solver", summary.solver);
  return proof;
}

/// What a library adds to the machine, where the plan was made for it.
void addLibrary(const Cluster &cluster, Json &time) {
  if (cluster.launchUs > 0)
    time["launch_us"] = cluster.launchUs;
  if (cluster.multicastUs > 0)
    time["multicast_us"] = cluster.multicastUs;
  if (cluster.copyEngineUs > 0)
    time["copy_engine_us"] = cluster.copyEngineUs;
  if (cluster.channelsPerPeer > 0)
    time["channels"] = {
        {"per_peer", cluster.channelsPerPeer},
        {"intra_pair_GBps", cluster.bytesPerSecond(false) / 1e9},
        {"inter_pair_GBps", cluster.bytesPerSecond(true) / 1e9}};
}

/// `losses` is null where nobody asks for them.
Json planJson(const PlanReader &plan, const Result<PlanLosses> *losses) {
  const PlanCommon &common = plan.common();
  const PlanSummary &s = common.summary;
  Json out;
  out["format_version"] = std::to_string(plan.formatMajor()) + "." +
                          std::to_string(plan.formatMinor());
  out["request_hash"] = common.requestHash;
  out["source"]["world"] = common.sourceWorld;
  out["destination"]["world"] = common.destinationWorld;
  out["tensors"] = countTensors(common);
  out["bytes"] = {{"destination", s.bytesDestination},
                  {"local", s.bytesLocal},
                  {"wire", s.bytesWire},
                  {"wire_lower_bound", s.bytesWireLowerBound},
                  {"inter_node", s.bytesInterNode},
                  {"inter_node_lower_bound", s.bytesInterNodeLowerBound}};
  if (s.bytesInPlace > 0)
    out["bytes"]["in_place"] = s.bytesInPlace;
  out["time"] = {{"predicted_s", s.timePredicted},
                 {"lower_bound_s", s.timeLowerBound}};
  if (s.bytesRelayed > 0) {
    out["bytes"]["relayed"] = s.bytesRelayed;
    out["time"]["without_relays_s"] = s.timeWithoutRelays;
  }
  addLibrary(common.cluster, out["time"]);
  out["memory"] = {
      {"mode", memoryModeName(s.mode)}, {"staging_limit", s.stagingLimit},
      {"staging_peak", s.stagingPeak},  {"device_peak", s.devicePeak},
      {"source_max", s.sourceMax},      {"destination_max", s.destinationMax}};
  if (s.granularity == Granularity::Tensor)
    out["memory"]["granularity"] = "tensor";
  if (s.overNccl)
    out["memory"]["communicator"] = "nccl";
  if (common.compression.isOn())
    out["compression"] = {
        {"below_GBps", common.compression.belowGBps},
        {"block", common.compression.blockBytes},
        {"staging", common.compression.bytesPerDevice(common.cluster)}};
  out["counts"] = {{"waves", s.waves},
                   {"messages", s.messages},
                   {"collectives", s.multicasts + s.libraryCollectives}};
  if (s.libraryCollectives > 0)
    out["counts"]["library_collectives"] = s.libraryCollectives;
  out["proof"] = proofJson(s);
  if (losses)
    out["losses"] = lossesJson(*losses);
  return out;
}

Json partsJson(const PeakParts &parts) {
  return {{"source", parts.source},
          {"destination", parts.destination},
          {"staging", parts.staging}};
}

Json partsJson(const GpuParts &parts) {
  return {{"tables", parts.tables},
          {"nccl_local", parts.local},
          {"nccl_network", parts.network}};
}

Json overNcclJson(const GpuPeak &most) {
  return {{"device_peak", most.sum()},
          {"device", most.device},
          {"peak_parts", partsJson(most.parts)},
          {"gpu_parts", partsJson(most.beside)}};
}

Json rankJson(const RankProgram &program, const DeviceTraffic &traffic,
              const PeakParts &parts, const GpuParts &gpu) {
  return {{"device", program.device},
          {"source_rank", program.sourceRank},
          {"destination_rank", program.destinationRank},
          {"source_bytes", traffic.sourceBytes},
          {"destination_bytes", traffic.destinationBytes},
          {"staging_bytes", traffic.stagingBytes},
          {"peak_bytes", traffic.peakBytes},
          {"peak_parts", partsJson(parts)},
          {"gpu_parts", partsJson(gpu)},
          {"gpu_peak_bytes", traffic.peakBytes + gpu.sum()},
          {"copied_bytes", traffic.copied},
          {"sent_bytes", traffic.sent},
          {"received_bytes", traffic.received},
          {"messages", traffic.messages},
          {"instructions", traffic.instructions}};
}

void writeRow(std::ostream &out, const char *name, const std::string &value) {
  out << std::left << std::setw(22) << name << value << "\n";
}

/// "12.0 GiB (1.00 x lower bound)"
std::string boundedText(uint64_t bytes, uint64_t bound) {
  std::string text = bytesText(bytes);
  if (bound == 0)
    return text;
  std::ostringstream ratio;
  ratio << std::fixed << std::setprecision(2) << double(bytes) / double(bound);
  return text + " (" + ratio.str() + " x lower bound)";
}

std::string proofText(const PlanSummary &s) {
  std::string text = "coverage " + (s.coverage.empty() ? "-" : s.coverage) +
                     ", deadlock-free " +
                     (s.deadlockFree.empty() ? "-" : s.deadlockFree) +
                     ", memory " + (s.memorySafe.empty() ? "-" : s.memorySafe);
  std::string by = s.solver;
  if (s.solverSteps > 0)
    by += ", at most " + std::to_string(s.solverSteps) + " steps each";
  if (!s.verifier.empty())
    by += (by.empty() ? "verifier " : ", verifier ") + s.verifier;
  return by.empty() ? text : text + " (" + by + ")";
}

std::string featuresText(FeatureSet features) {
  std::string text;
  for (const std::string &name : featureNames(features))
    text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "-" : text;
}

/// "20.6 of 200 GB/s inside a node"
std::string pairText(const Cluster &cluster, bool interNode) {
  std::ostringstream text;
  text << cluster.bytesPerSecond(interNode) / 1e9 << " of "
       << cluster.levelBytesPerSecond(interNode) / 1e9 << " GB/s "
       << (interNode ? "between two" : "inside a node");
  return text.str();
}

void writeLibrary(const Cluster &cluster, std::ostream &out) {
  if (cluster.launchUs > 0)
    writeRow(out, "a wave",
             secondsText(cluster.launchUs * 1e-6) + " to launch, " +
                 secondsText(cluster.latencySeconds()) + " of latency");
  if (cluster.multicastUs > 0)
    writeRow(out, "a multicast",
             secondsText(cluster.multicastUs * 1e-6) + " in a node's switch");
  if (cluster.copyEngineUs > 0)
    writeRow(out, "copy engines",
             secondsText(cluster.copyEngineUs * 1e-6) +
                 " for a call in a node");
  if (cluster.channelsPerPeer > 0)
    writeRow(out, "a pair",
             std::to_string(cluster.channelsPerPeer) + " channels: " +
                 pairText(cluster, false) + ", " + pairText(cluster, true));
}

/// "between nodes, below 0.25 GB/s; 8.0 MiB of the staging"
std::string compressionText(const PlanCommon &common) {
  std::ostringstream text;
  text << "between nodes, below " << common.compression.belowGBps << " GB/s; "
       << bytesText(common.compression.bytesPerDevice(common.cluster))
       << " of the staging";
  return text.str();
}

void writePlanText(const PlanReader &plan, const Result<PlanLosses> *losses,
                   std::ostream &out) {
  const PlanCommon &common = plan.common();
  const PlanSummary &s = common.summary;
  writeRow(out, "plan",
           digestText(plan.digest()) + ", format " +
               std::to_string(plan.formatMajor()) + "." +
               std::to_string(plan.formatMinor()) + ", by " +
               common.compilerVersion);
  writeRow(out, "worlds",
           std::to_string(common.sourceWorld) + " -> " +
               std::to_string(common.destinationWorld) + " ranks on " +
               std::to_string(plan.devices().size()) + " devices");
  writeRow(out, "tensors",
           std::to_string(countTensors(common)) + " in " +
               std::to_string(common.families.size()) + " families");
  writeRow(out, "destination bytes", bytesText(s.bytesDestination));
  if (s.bytesInPlace > 0)
    writeRow(out, "bytes in place", bytesText(s.bytesInPlace));
  writeRow(out, "local bytes", bytesText(s.bytesLocal));
  writeRow(out, "wire bytes", boundedText(s.bytesWire, s.bytesWireLowerBound));
  writeRow(out, "inter-node bytes",
           boundedText(s.bytesInterNode, s.bytesInterNodeLowerBound));
  writeRow(out, "predicted time",
           secondsText(s.timePredicted) + ", lower bound " +
               secondsText(s.timeLowerBound));
  if (s.bytesRelayed > 0)
    writeRow(out, "relayed bytes",
             bytesText(s.bytesRelayed) +
                 ", on the wire a second time; without "
                 "relays " +
                 secondsText(s.timeWithoutRelays));
  writeLibrary(common.cluster, out);
  writeRow(out, "staging",
           bytesText(s.stagingPeak) + " of " + bytesText(s.stagingLimit));
  writeRow(out, "device peak",
           bytesText(s.devicePeak) + ", mode " +
               memoryModeName(s.mode, s.granularity) +
               (s.overNccl ? ", with what GPUs and NCCL have" : ""));
  if (common.compression.isOn())
    writeRow(out, "compression", compressionText(common));
  writeRow(out, "point of no return", noReturnText(s.mode, losses));
  writeRow(out, "shards",
           "at most " + bytesText(s.sourceMax) + " before, " +
               bytesText(s.destinationMax) + " after");
  writeRow(out, "schedule",
           std::to_string(s.waves) + " waves, " + std::to_string(s.messages) +
               " messages, " + std::to_string(s.multicasts) + " multicasts" +
               (s.libraryCollectives > 0
                    ? ", " + std::to_string(s.libraryCollectives) +
                          " library collectives"
                    : ""));
  writeRow(out, "proof", proofText(s));
  writeRow(out, "features", featuresText(common.features));
  if (losses)
    for (const auto &[name, value] : lossRows(*losses))
      writeRow(out, name.c_str(), value);
}

std::string partsText(const PeakParts &parts) {
  return "source " + bytesText(parts.source) + ", destination " +
         bytesText(parts.destination) + ", staging " + bytesText(parts.staging);
}

std::string partsText(const GpuParts &parts) {
  return "tables " + bytesText(parts.tables) + " more, buffers of NCCL " +
         bytesText(parts.local) + " in the node, " + bytesText(parts.network) +
         " for the network";
}

void writeOverNccl(const GpuPeak &most, std::ostream &out) {
  writeRow(out, "device peak over NCCL",
           bytesText(most.sum()) + ", device " + std::to_string(most.device) +
               ": " + partsText(most.parts) + ", " + partsText(most.beside));
}

void writeRankText(const RankProgram &program, const DeviceTraffic &traffic,
                   const PeakParts &parts, const GpuParts &gpu,
                   std::ostream &out) {
  out << "\n";
  writeRow(out, "device",
           std::to_string(program.device) + ", source rank " +
               std::to_string(program.sourceRank) + ", destination rank " +
               std::to_string(program.destinationRank));
  writeRow(out, "  holds",
           bytesText(traffic.sourceBytes) + " before, " +
               bytesText(traffic.destinationBytes) + " after");
  writeRow(out, "  staging", bytesText(traffic.stagingBytes));
  writeRow(out, "  peak",
           bytesText(traffic.peakBytes) + ": " + partsText(parts));
  writeRow(out, "  peak over NCCL",
           bytesText(traffic.peakBytes + gpu.sum()) + ": " + partsText(gpu));
  writeRow(out, "  copies", bytesText(traffic.copied));
  writeRow(out, "  sends", bytesText(traffic.sent));
  writeRow(out, "  receives", bytesText(traffic.received));
  writeRow(out, "  program",
           std::to_string(traffic.instructions) + " instructions, " +
               std::to_string(traffic.messages) + " messages");
}

} // namespace

Status writeInspection(const PlanReader &plan, std::optional<uint32_t> device,
                       OutputFormat format, std::ostream &out, TellLosses tell,
                       TellNccl nccl) {
  std::optional<RankProgram> program;
  if (device) {
    auto found = plan.program(*device);
    DTRT_RETURN_IF_ERROR(found);
    program = std::move(*found);
  }
  DeviceTraffic traffic;
  PeakParts parts;
  GpuParts gpu;
  if (program) {
    traffic = trafficOf(plan.common(), *program);
    parts = peakPartsOf(plan.common(), *program);
    auto beside = gpuPartsOf(plan.common(), *program);
    DTRT_RETURN_IF_ERROR(beside);
    gpu = *beside;
  }
  std::optional<Result<PlanLosses>> losses;
  if (tell == TellLosses::Yes && !program &&
      plan.common().summary.mode == MemoryMode::Flat)
    losses = findLosses(plan);
  const Result<PlanLosses> *told = losses ? &*losses : nullptr;
  std::optional<GpuPeak> overNccl;
  if ((nccl == TellNccl::Yes || plan.common().summary.overNccl) && !program) {
    auto most = gpuPeakOf(plan);
    DTRT_RETURN_IF_ERROR(most);
    overNccl = *most;
  }
  if (format == OutputFormat::Json) {
    Json json = planJson(plan, told);
    if (overNccl)
      json["memory"]["over_nccl"] = overNcclJson(*overNccl);
    if (program)
      json["rank"] = rankJson(*program, traffic, parts, gpu);
    out << json.dump(2) << "\n";
    return {};
  }
  writePlanText(plan, told, out);
  if (overNccl)
    writeOverNccl(*overNccl, out);
  if (program)
    writeRankText(*program, traffic, parts, gpu, out);
  return {};
}

} // namespace dtrt
