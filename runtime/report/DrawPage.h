//===- DrawPage.h - The page that dt-plan draw fills ------------*- C++ -*-===//

#ifndef DTRT_LIB_REPORT_DRAWPAGE_H
#define DTRT_LIB_REPORT_DRAWPAGE_H

namespace dtrt {

/// Of this page alone; see dtrt/report/Page.h.
extern const char *const kPageStyle;
/// HTML inside <main> before and after the JSON object that the page's script
/// draws.
extern const char *const kPageHead;
extern const char *const kPageTail;

} // namespace dtrt

#endif // DTRT_LIB_REPORT_DRAWPAGE_H
