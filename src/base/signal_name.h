/* Signals as people write them, without "SIG": glibc has sigabbrev_np() only since 2.32. Pure. */
#ifndef MP_BASE_SIGNAL_NAME_H
#define MP_BASE_SIGNAL_NAME_H

/* NULL for a number that has no name of its own (a real-time signal). */
const char *mp_signal_name(unsigned number);

#endif
