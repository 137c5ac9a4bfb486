/* PyTorch's allocators as a front end of the recorder: all else of it is preloaded definitions. */
#ifndef MP_CAPTURE_TORCH_H
#define MP_CAPTURE_TORCH_H

/* The process has the PyTorch shim: a recording with tensors says so. Any thread; no session is needed. */
void mp_torch_shim_started(void);

#endif
