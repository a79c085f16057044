"""What a session and its nights came to: as text, as JUnit XML, and as a page."""
