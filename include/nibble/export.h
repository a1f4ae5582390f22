/* Symbol visibility: everything is hidden except what carries NIB_API. */
#ifndef NIBBLE_EXPORT_H
#define NIBBLE_EXPORT_H

#if defined(__GNUC__)
#define NIB_API __attribute__((visibility("default")))
#define NIB_CHECK __attribute__((warn_unused_result))
#define NIB_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define NIB_API
#define NIB_CHECK
#define NIB_PRINTF(format, first)
#endif

#endif
