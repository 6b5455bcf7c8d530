//===- WaveProblemText.h - Wave problems as text ----------------*- C++ -*-===//
//
//   {
//     "problem": "waves",
//     "cluster": {"devices_per_node": 8, ...},
//     "staging_bytes": 1048576,
//     "element_bytes": [4, 2],
//     "moves": [
//       {"flow": 0, "from": 0, "to": 8, "box": [[0, 4], [0, 8]]},
//       {"flow": 0, "hop": 1, "from": 8, "to": 9, "box": [[0, 4], [0, 8]]}
//     ],
//     "copies": [{"flow": 1, "device": 3, "box": [[0, 4]]}],
//     "storage": {
//       "page_bytes": 64, "limit_bytes": 4096,
//       "flows": [
//         {"leading": 0, "reads_from": 0, "source_states": [[4, 1]],
//          "destination_states": [[4, 1]],
//          "source": [{"devices": [0], "dims": [[[0, 4]], [[0, 8]]]}, ...],
//          "destination": [...]}
//       ]
//     }
//   }
//
// States are [bytes per element, count]. `hop`, `copies`, `storage` and the
// `range` of a shard may be left out.
//
//===----------------------------------------------------------------------===//

#ifndef DT_SCHEDULING_WAVEPROBLEMTEXT_H
#define DT_SCHEDULING_WAVEPROBLEMTEXT_H

#include "dt/Scheduling/WaveProblem.h"

namespace dt {

/// What reads back as the same problem.
std::string toText(const WaveProblem &problem);

/// The problem of a text, which need not be sound; nullopt, and `error`, when a
/// key or a value is not what is expected at its place.
std::optional<WaveProblem> readWaveProblem(const std::string &text,
                                           std::string &error);

} // namespace dt

#endif // DT_SCHEDULING_WAVEPROBLEMTEXT_H
