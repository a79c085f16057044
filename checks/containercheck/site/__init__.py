"""Read facts about a partition: the site file, its hosts, its scheduler, and the layout of ranks on its nodes."""
