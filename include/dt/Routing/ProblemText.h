//===- ProblemText.h - Routing problems as text -----------------*- C++ -*-===//
//
//   {
//     "problem": "routing",
//     "cluster": {"devices_per_node": 8, ...},
//     "staging_bytes": 1048576,
//     "flows": [
//       {"element_bytes": 4,
//        "source": {"owners": [[0], [1, 2]],
//                   "cells": [{"owners": 0, "box": [[0, 4], [0, 8]]}, ...]},
//        "destination": {...}}
//     ]
//   }
//
//===----------------------------------------------------------------------===//

#ifndef DT_ROUTING_PROBLEMTEXT_H
#define DT_ROUTING_PROBLEMTEXT_H

#include "dt/Routing/RoutingProblem.h"

namespace dt {

/// What reads back as the same problem.
std::string toText(const RoutingProblem &problem);

/// The problem of a text, which need not be sound; nullopt, and `error`, when a
/// key or a value is not what is expected at its place.
std::optional<RoutingProblem> readRoutingProblem(const std::string &text,
                                                 std::string &error);

/// What the text says under "problem": "routing" or "waves".
std::string problemKind(const std::string &text, std::string &error);

} // namespace dt

#endif // DT_ROUTING_PROBLEMTEXT_H
