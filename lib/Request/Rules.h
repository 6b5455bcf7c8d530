//===- Rules.h - A request's rules: how tensors are cut ---------*- C++ -*-===//

#ifndef DT_LIB_REQUEST_RULES_H
#define DT_LIB_REQUEST_RULES_H

#include "ModelFile.h"

namespace dt::request {

struct Rule {
  std::string match; // a glob on the tensor's name
  Cut cut;
  std::optional<Stage> stage;
  std::string storage; // empty: the rule says nothing of storages
  bool cuts = true;    // it says more than a storage
};

/// `path` is where they stand: "rules", "source.rules".
std::vector<Rule> readRules(const Json &rules, const std::string &path);

/// Gives every tensor the storage that the first matching rule with one names;
/// without such a rule it keeps that of its entry in the model.
void applyStorages(const std::vector<Rule> &rules, Model &model);

/// Gives every tensor its cut and stage: the first matching rule's, else the
/// model type's own, else it is an error. Layers and experts of flat lists are
/// read from the names, and the model's counts of them are set.
void applyRules(const std::vector<Rule> &rules, Model &model);
/// Whether that changes nothing: there are no rules, and all tensors have cuts.
bool leaveCuts(const std::vector<Rule> &rules, const Model &model);

} // namespace dt::request

#endif // DT_LIB_REQUEST_RULES_H
