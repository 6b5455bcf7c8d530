//===- Obligations.cpp - Obligations as a file for any solver
//--------------===//

#include "dt/Proof/Obligations.h"

std::string dt::toSmtLib(const std::vector<Obligation> &obligations,
                         const std::vector<std::string> &header) {
  std::string out;
  for (const std::string &line : header)
    out += "; " + line + "\n";
  out += "; Every answer must be unsat.\n(set-logic ALL)\n";
  for (const Obligation &obligation : obligations) {
    out += "\n; " + obligation.name + ": " + obligation.statement;
    if (!obligation.theorem.empty())
      out += " (proof/: " + obligation.theorem + ")";
    out += "\n";
    out += "(push 1)\n" + obligation.problem + "(check-sat)\n(pop 1)\n";
  }
  return out;
}
