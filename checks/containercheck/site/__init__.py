"""What is known of a partition: the site file, its hosts, its scheduler, and how ranks lie on its nodes."""
