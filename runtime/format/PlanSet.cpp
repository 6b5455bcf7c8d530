//===- PlanSet.cpp - A folder of plans and its index ----------------------===//

#include "dtrt/format/PlanSet.h"

#include "dtrt/format/OutputFile.h"
#include "dtrt/format/OutputFolder.h"
#include "dtrt/format/Text.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sys/stat.h>

namespace dtrt {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kFormat = "dynatrain plan set";
constexpr int64_t kVersion = 1;
/// A plan takes about 1 KiB of it. It is read whole, and its values take many
/// times its bytes.
constexpr uint64_t kMaxIndexBytes = 16 << 20;
/// An index is 6 deep.
constexpr int kMaxIndexDepth = 8;
/// Devices of all plans together, which a few bytes can name.
constexpr uint64_t kMaxSetDevices = uint64_t(1) << 26;
constexpr uint64_t kMaxWorld = uint64_t(1) << 17;

/// A path as errors show it.
std::string shown(const std::string &folder, const std::string &file) {
  return "'" + folder + "/" + file + "'";
}

/// A text from outside in one short line.
std::string inQuotes(const std::string &text) {
  return Json(shortened(text))
      .dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

bool isFileName(const std::string &name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name[0] != '.' &&
         name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

Json layoutJson(const SetLayout &layout) {
  Json out;
  if (!layout.name.empty())
    out["name"] = layout.name;
  out["world"] = layout.world;
  out["devices"] = deviceText(layout.devices);
  if (layout.sizes.empty()) {
    out["layout"] = nullptr;
  } else {
    Json &sizes = out["layout"];
    for (const auto &[name, size] : layout.sizes)
      sizes[name] = size;
    sizes["order"] = layout.order;
    if (!layout.ppLayers.empty())
      sizes["pp_layers"] = layout.ppLayers;
  }
  out["fingerprint"] = layout.fingerprint;
  return out;
}

Json planJson(const SetPlan &plan) {
  Json out;
  out["name"] = plan.name;
  out["file"] = plan.file;
  out["digest"] = plan.digest;
  out["bytes"] = plan.bytes;
  out["predicted_s"] = plan.predictedSeconds;
  if (!plan.lost.empty())
    out["lost"] = plan.lost;
  out["source"] = layoutJson(plan.source);
  out["destination"] = layoutJson(plan.destination);
  return out;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Keeps the first mistake; what is read after it is empty.
class IndexReader {
public:
  Result<std::vector<SetPlan>> read(const Json &index);

private:
  bool fail(const std::string &path, const std::string &what);
  const Json *member(const Json &object, const std::string &path,
                     const char *key);
  std::string text(const Json &object, const std::string &path,
                   const char *key);
  uint64_t count(const Json &object, const std::string &path, const char *key,
                 uint64_t most);
  void addSize(const std::string &name, const Json &value,
               const std::string &path, SetLayout &out);
  void readSizes(const Json &json, const std::string &path, SetLayout &out);
  SetLayout layout(const Json &plan, const std::string &path, const char *key);
  SetPlan plan(const Json &json, const std::string &path);

  Status status;
  uint64_t devices = 0;
};

bool IndexReader::fail(const std::string &path, const std::string &what) {
  if (status.ok())
    status = makeError(path, " ", what);
  return false;
}

const Json *IndexReader::member(const Json &object, const std::string &path,
                                const char *key) {
  if (!object.is_object()) {
    fail(path, "is no object");
    return nullptr;
  }
  auto found = object.find(key);
  if (found != object.end())
    return &*found;
  fail(path, std::string("has no \"") + key + "\"");
  return nullptr;
}

std::string IndexReader::text(const Json &object, const std::string &path,
                              const char *key) {
  const Json *value = member(object, path, key);
  if (!value)
    return "";
  if (!value->is_string()) {
    fail(path + "." + key, "is no string");
    return "";
  }
  return value->get_ref<const std::string &>();
}

uint64_t IndexReader::count(const Json &object, const std::string &path,
                            const char *key, uint64_t most) {
  const Json *value = member(object, path, key);
  if (!value)
    return 0;
  if (!value->is_number_unsigned() || value->get<uint64_t>() > most) {
    fail(path + "." + key,
         "is no whole number from 0 to " + std::to_string(most));
    return 0;
  }
  return value->get<uint64_t>();
}

void IndexReader::addSize(const std::string &name, const Json &value,
                          const std::string &path, SetLayout &out) {
  if (value.is_string() && name == "order") {
    out.order = value.get<std::string>();
  } else if (value.is_array() && name == "pp_layers") {
    for (const Json &layers : value) {
      if (!layers.is_number_integer()) {
        fail(path, "holds what is no whole number");
        return;
      }
      out.ppLayers.push_back(layers.get<int64_t>());
    }
  } else if (value.is_number_integer()) {
    out.sizes.push_back({name, value.get<int64_t>()});
  } else {
    fail(path, "is no whole number");
  }
}

void IndexReader::readSizes(const Json &json, const std::string &path,
                            SetLayout &out) {
  if (json.is_null())
    return;
  if (!json.is_object()) {
    fail(path, "is neither an object nor null");
    return;
  }
  for (const auto &[name, value] : json.items()) {
    Status named = checkName("a size", name);
    if (!named.ok())
      fail(path + ":", named.message());
    addSize(name, value, path + "." + inQuotes(name), out);
  }
}

SetLayout IndexReader::layout(const Json &plan, const std::string &path,
                              const char *key) {
  SetLayout out;
  std::string where = path + "." + key;
  const Json *json = member(plan, path, key);
  if (!json)
    return out;
  if (json->is_object() && json->contains("name"))
    out.name = text(*json, where, "name");
  out.world = int64_t(count(*json, where, "world", kMaxWorld));
  auto parsed = parseDevices(text(*json, where, "devices"));
  if (!parsed.ok()) {
    fail(where + ".devices", parsed.status().message());
    return out;
  }
  out.devices = std::move(*parsed);
  devices += out.devices.size();
  if (devices > kMaxSetDevices)
    fail(where + ".devices", "is, with those before, of more than " +
                                 std::to_string(kMaxSetDevices) + " devices");
  if (out.devices.size() != size_t(out.world))
    fail(where + ".devices", "has " + std::to_string(out.devices.size()) +
                                 " devices, but world is " +
                                 std::to_string(out.world));
  if (const Json *sizes = member(*json, where, "layout"))
    readSizes(*sizes, where + ".layout", out);
  out.fingerprint = text(*json, where, "fingerprint");
  return out;
}

SetPlan IndexReader::plan(const Json &json, const std::string &path) {
  SetPlan out;
  out.name = text(json, path, "name");
  if (!isFileName(out.name))
    fail(path + ".name", "names no file: " + inQuotes(out.name));
  out.file = text(json, path, "file");
  if (!isFileName(out.file))
    fail(path + ".file", "names no file of the folder: " + inQuotes(out.file));
  out.digest = text(json, path, "digest");
  out.bytes = count(json, path, "bytes", INT64_MAX);
  if (const Json *seconds = member(json, path, "predicted_s")) {
    if (!seconds->is_number() || !std::isfinite(seconds->get<double>()) ||
        seconds->get<double>() < 0)
      fail(path + ".predicted_s", "is no time in seconds");
    else
      out.predictedSeconds = seconds->get<double>();
  }
  if (json.is_object() && json.contains("lost"))
    out.lost = text(json, path, "lost");
  out.source = layout(json, path, "source");
  out.destination = layout(json, path, "destination");
  return out;
}

Result<std::vector<SetPlan>> IndexReader::read(const Json &index) {
  std::string format = text(index, "the index", "format");
  DTRT_RETURN_IF_ERROR(status);
  if (format != kFormat)
    return makeError("format is ", inQuotes(format), ", expected \"", kFormat,
                     "\"");
  uint64_t version = count(index, "the index", "version", INT64_MAX);
  DTRT_RETURN_IF_ERROR(status);
  if (version != kVersion)
    return makeError("version is ", version, ", expected ", kVersion);
  std::vector<SetPlan> plans;
  const Json *list = member(index, "the index", "plans");
  if (list && !list->is_array())
    fail("plans", "is no list");
  std::set<std::string> names, files;
  for (size_t i = 0; status.ok() && i < list->size(); ++i) {
    std::string path = "plans[" + std::to_string(i) + "]";
    plans.push_back(plan((*list)[i], path));
    if (!names.insert(plans.back().name).second)
      fail(path + ".name", "is that of another plan");
    if (!files.insert(plans.back().file).second)
      fail(path + ".file", "is that of another plan");
  }
  DTRT_RETURN_IF_ERROR(status);
  return plans;
}

/// The text of the index; an error without the file's name.
Result<std::string> readIndexText(const std::string &path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0)
    return makeError(strerror(errno));
  if (!S_ISREG(found.st_mode))
    return makeError("is no regular file");
  if (uint64_t(found.st_size) > kMaxIndexBytes)
    return makeError("has ", found.st_size, " bytes, expected at most ",
                     kMaxIndexBytes);
  std::string text(size_t(found.st_size), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), std::streamsize(text.size())))
    return makeError("cannot be read");
  return text;
}

/// `what` of a plan as its file and its index have it.
Status compare(const char *what, const std::string &inFile,
               const std::string &inIndex) {
  if (inFile == inIndex)
    return {};
  return makeError(what, " is ", inQuotes(inFile), ", but the index says ",
                   inQuotes(inIndex));
}

Status compareSides(const char *side, const SetLayout &file,
                    const SetLayout &index) {
  std::string what = side;
  DTRT_RETURN_IF_ERROR(compare((what + " fingerprint").c_str(),
                               file.fingerprint, index.fingerprint));
  return compare((what + " devices").c_str(), deviceText(file.devices),
                 deviceText(index.devices));
}

Status comparePlans(const SetPlan &file, const SetPlan &index) {
  DTRT_RETURN_IF_ERROR(compare("digest", file.digest, index.digest));
  DTRT_RETURN_IF_ERROR(compare("size in bytes", std::to_string(file.bytes),
                               std::to_string(index.bytes)));
  DTRT_RETURN_IF_ERROR(compareSides("source", file.source, index.source));
  DTRT_RETURN_IF_ERROR(
      compareSides("destination", file.destination, index.destination));
  return compare("predicted time", Json(file.predictedSeconds).dump(),
                 Json(index.predictedSeconds).dump());
}

SetPlan describe(const PlanReader &plan, const std::string &file,
                 uint64_t bytes) {
  const PlanCommon &common = plan.common();
  SetPlan out;
  out.file = file;
  out.digest = digestText(plan.digest());
  out.bytes = bytes;
  out.predictedSeconds = common.summary.timePredicted;
  out.source.world = common.sourceWorld;
  out.source.devices = common.sourceDevices;
  out.source.fingerprint = common.sourceFingerprint;
  out.destination.world = common.destinationWorld;
  out.destination.devices = common.destinationDevices;
  out.destination.fingerprint = common.destinationFingerprint;
  return out;
}

Result<uint64_t> bytesOf(const std::string &path) {
  struct stat found;
  if (stat(path.c_str(), &found) != 0)
    return makeError("cannot open '", path, "': ", strerror(errno));
  return uint64_t(found.st_size);
}

} // namespace

std::string deviceText(const std::vector<uint32_t> &devices) {
  std::string text;
  for (size_t i = 0; i < devices.size();) {
    size_t last = i;
    while (last + 1 < devices.size() && devices[last + 1] == devices[last] + 1)
      ++last;
    text += (text.empty() ? "" : ",") + std::to_string(devices[i]);
    if (last > i)
      text += "-" + std::to_string(devices[last]);
    i = last + 1;
  }
  return text;
}

Result<std::vector<uint32_t>> parseDevices(const std::string &text) {
  std::vector<uint32_t> devices;
  size_t at = 0;
  auto isDigit = [&] {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  auto number = [&](uint64_t &out) {
    size_t first = at;
    for (out = 0; isDigit() && at - first < 10; ++at)
      out = out * 10 + uint64_t(text[at] - '0');
    return at > first && !isDigit() && out <= INT32_MAX;
  };
  auto malformed = [&] {
    return makeError("is ", inQuotes(text),
                     ", expected devices and ascending "
                     "runs of them such as \"0-6,9\"");
  };
  while (true) {
    uint64_t from = 0, to = 0;
    bool isRead = number(from);
    to = from;
    if (isRead && at < text.size() && text[at] == '-') {
      ++at;
      isRead = number(to);
    }
    if (!isRead || to < from || to - from >= kMaxWorld)
      return malformed();
    for (uint64_t device = from; device <= to; ++device)
      devices.push_back(uint32_t(device));
    if (devices.size() > kMaxWorld)
      return makeError("has more than ", kMaxWorld, " devices");
    if (at == text.size())
      return devices;
    if (text[at++] != ',')
      return malformed();
  }
}

Result<SetPlan> describeSetPlan(const std::string &folder,
                                const std::string &file) {
  std::string path = folder + "/" + file;
  auto bytes = bytesOf(path);
  DTRT_RETURN_IF_ERROR(bytes);
  auto plan = PlanReader::open(path);
  DTRT_RETURN_IF_ERROR(plan);
  return describe(*plan, file, *bytes);
}

std::string setIndexText(const std::vector<SetPlan> &plans) {
  Json index;
  index["format"] = kFormat;
  index["version"] = kVersion;
  index["plans"] = Json::array();
  for (const SetPlan &plan : plans)
    index["plans"].push_back(planJson(plan));
  return index.dump(1) + "\n";
}

Status writeSetIndex(const std::string &folder,
                     const std::vector<SetPlan> &plans) {
  std::string text = setIndexText(plans);
  if (text.size() > kMaxIndexBytes)
    return makeError("the index of the set would have ", text.size(),
                     " bytes, more than the limit of ", kMaxIndexBytes);
  return writeTextFile(folder + "/" + kSetIndexName, [&](std::ostream &out) {
    out << text;
    return Status();
  });
}

Result<std::vector<SetPlan>> readSetIndex(const std::string &folder) {
  std::string shownPath = shown(folder, kSetIndexName);
  auto text = readIndexText(folder + "/" + kSetIndexName);
  if (!text.ok())
    return makeError("cannot read ", shownPath, ": ", text.status());
  auto keep = [](int depth, Json::parse_event_t, Json &) {
    return depth <= kMaxIndexDepth; // what is deeper is left out
  };
  Json index = Json::parse(*text, keep, /*allow_exceptions=*/false);
  if (index.is_discarded())
    return makeError(shownPath, " is no JSON");
  auto plans = IndexReader().read(index);
  if (!plans.ok())
    return makeError(shownPath, ": ", plans.status());
  return plans;
}

Result<PlanReader> openSetPlan(const std::string &folder, const SetPlan &plan) {
  std::string path = folder + "/" + plan.file;
  auto bytes = bytesOf(path);
  DTRT_RETURN_IF_ERROR(bytes);
  auto reader = PlanReader::open(path);
  DTRT_RETURN_IF_ERROR(reader);
  Status same = comparePlans(describe(*reader, plan.file, *bytes), plan);
  if (!same.ok())
    return makeError(shown(folder, plan.file),
                     " is not the plan of the index: ", same);
  return reader;
}

Status checkSetFiles(const std::string &folder,
                     const std::vector<SetPlan> &plans) {
  std::set<std::string> known = {kSetIndexName};
  for (const SetPlan &plan : plans)
    known.insert(plan.file);
  auto names = namesIn(folder);
  DTRT_RETURN_IF_ERROR(names);
  for (const std::string &name : *names)
    if (!known.count(name))
      return makeError(shown(folder, name), " is not in the index");
  return {};
}

std::set<std::string> filesOfSet(const std::string &folder) {
  std::set<std::string> files;
  auto plans = readSetIndex(folder);
  if (!plans.ok())
    return files;
  for (const SetPlan &plan : *plans)
    files.insert(plan.file);
  files.insert(kSetIndexName);
  return files;
}

} // namespace dtrt
