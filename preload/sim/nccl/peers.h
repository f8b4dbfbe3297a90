/* The answers that absent ranks would have given. */
#ifndef CUDASIM_PEERS_H
#define CUDASIM_PEERS_H

/* Size of the group that a rank of `ranks` joins by this split; 0 if it cannot be determined. */
int peers_of_split(int ranks, int rank, int colour, int key);

#endif
