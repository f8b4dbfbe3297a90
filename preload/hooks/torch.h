#ifndef PRELOAD_TORCH_H
#define PRELOAD_TORCH_H

/* A library was unloaded: finds PyTorch's own functions again at the next report. */
void torch_forget(void);

#endif
