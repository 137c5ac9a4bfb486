/* The values that memory of the stand-in GPU has. Under soft_lock. */
#pragma once

/* The same without the stream. */
void soft_values_changed(void);
