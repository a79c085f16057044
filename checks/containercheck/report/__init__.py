"""Report the results of a session and of earlier nights: as text, as JUnit XML, and as an HTML page."""
