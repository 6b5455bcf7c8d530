//===- Page.h - What the tools' HTML pages have in common ------*- C++ -*-===//

#ifndef DTRT_REPORT_PAGE_H
#define DTRT_REPORT_PAGE_H

#include <string>

namespace dtrt {

/// An HTML page that needs no other file, up to and with the opening of its
/// <main>: with the style that all pages share, in light and in dark (colours
/// --ink, --soft, --line, --paper, --ground and --a to --e; <section>, <svg>,
/// class key), and after it that of this page alone.
std::string pageStart(const std::string &title, const std::string &style);

} // namespace dtrt

#endif // DTRT_REPORT_PAGE_H
