//===- SnapshotGreeting.h - What snapshots say to neighbours ----*- C++ -*-===//

#ifndef DTRT_TORCH_SNAPSHOTGREETING_H
#define DTRT_TORCH_SNAPSHOTGREETING_H

#include <torch/csrc/utils/pybind.h>

namespace dtrt {

/// `greet(group, head, data, cut, place, is_known, fits, ends, known)
/// -> Greeting`: a copy of a process is sealed, and who keeps it is told of it;
/// of the copy that this process is to keep as much is heard.
///
/// - `head`, `data`, `cut`: the copy, of whose data the first `cut` bytes
///   travel (`Snapshot`).
/// - `place`: the four numbers of where others find its data, or zeros.
/// - `is_known`: whether the others know what it consists of.
/// - `fits`: bytes of what is said that go with the note, out and in. Both
///   sides of a message count alike.
/// - `ends`: the ranks that it goes to and comes from.
/// - `known`: (cut, place) of data that this process reads where it is. Where
///   what has come is one of them and nothing is left to be said, all is done:
///   the digest of its head is compared, and `all` is of each of (it is what
///   was sealed, `is_known`) whether all ranks say so (`least`). Otherwise
///   `all` is None, and the caller has to go on, with `least` at last.
///
/// `Greeting`: `digest` of the own copy (`Snapshot.measure`); of the other one
/// `length`, the bytes of what is said, `heard`, those that have come, `cut`
/// and `place`; and `all`. One call without Python's lock, as in GroupCalls.h.
void bindSnapshotGreeting(pybind11::module_ &module);

} // namespace dtrt

#endif // DTRT_TORCH_SNAPSHOTGREETING_H
