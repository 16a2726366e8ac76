"""Reports of a simulation: plain values for JSON and tables, and one HTML page with plots."""
