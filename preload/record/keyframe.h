/* Keyframes: the helper thread replays each full segment and writes what was live at its end, so
 * that the next one stands alone. */
#ifndef PRELOAD_KEYFRAME_H
#define PRELOAD_KEYFRAME_H

/* Forgets the live set; a new recording begins. */
void keyframe_reset(void);

/* Replays the segments that became full since the last call and writes their followers' keyframes.
 * By one thread at a time: the helper's, or where there is none the one that needs a segment.
 * Returns 1 when a record that is reserved and not written yet holds it up. */
int keyframe_work(void);

#endif
