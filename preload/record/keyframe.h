/* Keyframes: the helper thread replays each full segment and writes the live set at its end, so
 * that the next segment can be read without the earlier ones. */
#ifndef PRELOAD_KEYFRAME_H
#define PRELOAD_KEYFRAME_H

/* Forgets the live set; a new recording begins. */
void keyframe_reset(void);

/* Replays the segments that became full since the last call and writes the keyframe of the segment
 * after each. One thread at a time calls it: the helper, or, without a helper, the thread that
 * needs a segment. Returns 1 if a reserved record is not written yet. */
int keyframe_work(void);

#endif
