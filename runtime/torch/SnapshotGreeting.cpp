//===- SnapshotGreeting.cpp - What snapshots say to neighbours ------------===//

#include "SnapshotGreeting.h"

#include "BytesDigest.h"
#include "GroupCalls.h"

namespace py = pybind11;

namespace dtrt {

namespace {

/// A process, its file, and the device and inode of that.
using Place = std::array<int64_t, 4>;
using Known = std::vector<std::pair<int64_t, Place>>;

/// What each message begins with.
struct Note {
  int64_t length, cut;
  Place place;
};

struct Greeting {
  std::string digest, heard;
  Note note;
  std::optional<std::vector<bool>> all;
};

std::string measure(const std::string &head, const at::Tensor &data,
                    int64_t cut) {
  TORCH_CHECK(data.is_cpu() && data.is_contiguous() &&
                  data.scalar_type() == at::kByte && 0 <= cut &&
                  cut <= data.numel(),
              "greet: expected contiguous bytes of the host, ", cut,
              " or more of them");
  const auto *bytes = static_cast<const std::byte *>(data.const_data_ptr());
  std::string digest = digestOf(head.data(), head.size());
  digest += digestOf(bytes, size_t(cut));
  if (cut < data.numel())
    digest += digestOf(bytes + cut, size_t(data.numel() - cut));
  return digest;
}

at::Tensor bytesOf(std::string &text) {
  return at::from_blob(text.data(), {int64_t(text.size())}, at::kByte);
}

/// The note, and what fits of what is said, with zeros behind it.
std::string messageOf(const Note &note, const std::string &said, size_t fits) {
  std::string message(sizeof note + fits, '\0');
  std::memcpy(message.data(), &note, sizeof note);
  std::memcpy(message.data() + sizeof note, said.data(),
              std::min(fits, said.size()));
  return message;
}

/// What is said is a head, its digest and that of the data.
bool isAsSealed(const std::string &heard) {
  const std::string empty = digestOf(nullptr, 0);
  if (heard.size() < 2 * empty.size())
    return false;
  const size_t head = heard.size() - 2 * empty.size();
  return heard.compare(head, empty.size(), digestOf(heard.data(), head)) == 0;
}

Greeting greet(const GroupPtr &group, const std::string &head,
               const at::Tensor &data, int64_t cut, const Place &place,
               bool isKnown, std::pair<size_t, size_t> fits,
               std::pair<int, int> ends, const Known &known) {
  Greeting found;
  found.digest = measure(head, data, cut);
  const std::string said =
      head + found.digest.substr(0, 2 * digestOf(nullptr, 0).size());
  std::string own =
      messageOf({int64_t(said.size()), cut, place}, said, fits.first);
  std::string came(sizeof(Note) + fits.second, '\0');
  swap(group, {bytesOf(own)}, {bytesOf(came)}, ends.first, ends.second);

  std::memcpy(&found.note, came.data(), sizeof(Note));
  const int64_t length = found.note.length;
  TORCH_CHECK(length >= 0, "greet: a note of ", length, " bytes");
  found.heard =
      came.substr(sizeof(Note), std::min(size_t(length), fits.second));
  const std::pair there(found.note.cut, found.note.place);
  if (said.size() <= fits.first && size_t(length) <= fits.second &&
      std::find(known.begin(), known.end(), there) != known.end()) {
    found.all.emplace();
    for (int64_t all : least(group, {isAsSealed(found.heard), isKnown}))
      found.all->push_back(all != 0);
  }
  return found;
}

} // namespace

void bindSnapshotGreeting(py::module_ &module) {
  py::class_<Greeting>(module, "Greeting")
      .def_property_readonly(
          "digest", [](const Greeting &own) { return py::bytes(own.digest); })
      .def_property_readonly(
          "heard", [](const Greeting &own) { return py::bytes(own.heard); })
      .def_property_readonly(
          "length", [](const Greeting &own) { return own.note.length; })
      .def_property_readonly("cut",
                             [](const Greeting &own) { return own.note.cut; })
      .def_property_readonly("place",
                             [](const Greeting &own) { return own.note.place; })
      .def_readonly("all", &Greeting::all);
  module.def("greet", &greet, py::call_guard<py::gil_scoped_release>());
}

} // namespace dtrt
