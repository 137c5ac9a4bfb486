/* Answers that programs expect of computed memory, as the stand-in runtime gives them. */
#pragma once

/* Called after the thread has launched the kernel. */
void softrt_expect_answer(const void *function, void *const *arguments);
