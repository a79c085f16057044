#include <stdio.h>
const char *word(void) {
    static char line[64];
    FILE *table = fopen("%s/share/table", "r");
    return table && fgets(line, sizeof line, table) ? line : "no table";
}
