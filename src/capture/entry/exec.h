/* The functions that start another program (exec.c). They need nothing from others. */
#pragma once

/* Looks the C library's functions up. For the constructor. */
void mp_exec_start(void);
