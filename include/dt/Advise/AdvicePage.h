//===- AdvicePage.h - Advice on one self-contained page ---------*- C++ -*-===//

#ifndef DT_ADVISE_ADVICEPAGE_H
#define DT_ADVISE_ADVICEPAGE_H

#include "dt/Advise/Advice.h"

#include <string>

namespace dt::advise {

/// One self-contained HTML page: step time against transition time, and the
/// rows.
std::string advicePage(const Job &job, const Advice &advice);

} // namespace dt::advise

#endif // DT_ADVISE_ADVICEPAGE_H
