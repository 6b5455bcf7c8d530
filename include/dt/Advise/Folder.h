//===- Folder.h - Advice as a folder of files -------------------*- C++ -*-===//

#ifndef DT_ADVISE_FOLDER_H
#define DT_ADVISE_FOLDER_H

#include "dt/Advise/Advice.h"

namespace dt::advise {

struct FolderOptions {
  std::string folder;
  std::string tools;   // where dt-opt and dt-plan are
  size_t compiled = 3; // rows whose request is compiled; 0: none
  bool keepPlans = false;
};

/// Writes a request per row ("1-tp8-pp4-dp3.json"), compiles the first ones and
/// ranks anew with what that says, and writes advice.json, advice.html,
/// stages.json (of the best row) and, where the profile has loads,
/// experts.json. Rows get the names of their requests.
bool writeFolder(const Job &job, const FolderOptions &options, Advice &advice,
                 const Progress &progress, std::string &error);

} // namespace dt::advise

#endif // DT_ADVISE_FOLDER_H
