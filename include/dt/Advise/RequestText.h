//===- RequestText.h - The request that a row stands for --------*- C++ -*-===//

#ifndef DT_ADVISE_REQUESTTEXT_H
#define DT_ADVISE_REQUESTTEXT_H

#include "dt/Advise/Advice.h"

#include <string>

namespace dt::advise {

/// The request of a row, to be read from `folder`.
std::string requestText(const Job &job, const Advice &advice,
                        const AdviceRow &row, const std::string &folder);

} // namespace dt::advise

#endif // DT_ADVISE_REQUESTTEXT_H
