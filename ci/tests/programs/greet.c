#include <stdio.h>
const char *word(void);
int main(void) { puts(word()); return 0; }
