#include "record/last_event.h"

__thread struct last_event last_event __attribute__((tls_model("initial-exec")));
