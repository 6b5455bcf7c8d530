//===- Report.h - Advice in words and JSON ----------------------*- C++ -*-===//

#ifndef DT_ADVISE_REPORT_H
#define DT_ADVISE_REPORT_H

#include "dt/Advise/Advice.h"

#include <iosfwd>

namespace dt::advise {

/// One JSON array, a row per destination, best first. docs/Advise.md has the
/// keys.
std::string rowsJson(const Job &job, const Advice &advice);

/// All that is known, as one JSON object: rows, today's layout, notes, and per
/// row the deal of the batch.
std::string adviceJson(const Job &job, const Advice &advice);

/// A table for people.
void writeTable(std::ostream &out, const Job &job, const Advice &advice);

/// Operations of a step of the row's layout and the slowdowns of stages that
/// cost no time, as JSON. Steps of more operations than `most` are cut to as
/// many micro-batches as fit, at least two per stage.
std::string stageGraphJson(const Job &job, const Destination &destination,
                           int64_t most, std::string &error);

/// Where experts should lie by the profile's loads, layer by layer, as JSON;
/// empty without loads.
std::string expertsJson(const Job &job, const Destination &destination);

} // namespace dt::advise

#endif // DT_ADVISE_REPORT_H
